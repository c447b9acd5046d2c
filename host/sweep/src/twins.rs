//! Runs compared with their twins: the baseline's run of the same seed and otherwise the same combination.
//!
//! During a sweep each run is compared with its twin at the same steps, and a run that is worse is reported once.
//! Losses are read from the files of the csv sink; a run without one is not watched. A file that cannot be read when
//! its run has ended is reported.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use altgrad_alerts::twin::{self, Worse};
use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::families::training::LOSS;
use altgrad_run_folder::{
    csv_files::CsvFiles,
    rows::{Rows, number},
};

use super::combine::Combination;

/// Time between two checks of running runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// The runs of a sweep that have a twin.
#[derive(Debug, Default)]
pub(super) struct Twins {
    folder: PathBuf,
    /// The twin of each run, by name.
    twin_of: BTreeMap<String, String>,
    /// The findings, by run.
    found: BTreeMap<String, Worse>,
    looked: Option<Instant>,
}

impl Twins {
    /// The twins of combinations whose folders are in `folder`. `baseline` is the part of a name that the baseline's
    /// have; none: no run has a twin.
    pub fn new(combinations: &[Combination], folder: &Path, baseline: Option<&str>) -> Self {
        let twin_of = |own: &Combination| {
            let baseline = baseline?;
            let is_twin = |other: &&Combination| is_twin(&own.parts, &other.parts, baseline);
            combinations.iter().find(is_twin).map(|twin| (own.name.clone(), twin.name.clone()))
        };
        let twin_of = combinations.iter().filter_map(twin_of).collect();
        Self { folder: folder.to_path_buf(), twin_of, ..Self::default() }
    }

    /// The finding about a run, with the name of its twin.
    pub fn worse(&self, run: &str) -> Option<(&str, Worse)> {
        Some((self.twin_of.get(run)?, *self.found.get(run)?))
    }

    /// Checks running runs at intervals. Returns a sentence for each run that is worse than its twin.
    pub fn look_at<'a>(&mut self, runs: impl Iterator<Item = &'a str>) -> Vec<String> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_INTERVAL) {
            return Vec::new();
        }
        self.looked = Some(Instant::now());
        runs.filter_map(|run| self.look(run)).collect()
    }

    /// Handles the end of a run, for itself and for the runs whose twin it is.
    pub fn ended(&mut self, run: &str) -> Vec<String> {
        let is_of_pair = |(own, twin): &(&String, &String)| *own == run || *twin == run;
        let pairs = self.twin_of.iter().filter(is_of_pair);
        let runs: Vec<String> = pairs.map(|(own, _)| own.clone()).collect();
        let unreadable = losses(&self.folder.join(run)).err().filter(|_| !runs.is_empty());
        let unreadable = unreadable
            .map(|error| format!("{run}: it cannot be compared, because its losses cannot be read: {error}"));
        unreadable.into_iter().chain(runs.iter().filter_map(|run| self.look(run))).collect()
    }

    fn look(&mut self, run: &str) -> Option<String> {
        if self.found.contains_key(run) {
            return None;
        }
        let twin = self.twin_of.get(run)?;
        // A file that is just being made may be unreadable; `ended` reports one that stays so.
        let losses = |run: &str| losses(&self.folder.join(run)).ok().flatten();
        let worse = twin::first_worse(&losses(run)?, &losses(twin)?)?;
        let text = format!(
            "{run}: worse than its baseline {twin}: by {:.1} % over the {} steps up to step {}",
            (worse.ratio - 1.0) * 100.0,
            twin::WINDOW,
            worse.step
        );
        self.found.insert(run.to_string(), worse);
        Some(text)
    }
}

/// The first step of the window over which a run's training loss is first worse than that of a run of the same seed;
/// `None` if it never is, or if one of them has no losses.
///
/// # Errors
/// Losses cannot be read.
pub fn departure(run: &Path, twin: &Path) -> Result<Option<u64>, Diagnostic> {
    let read = |folder: &Path| {
        let unreadable = |error| Diagnostic::config(format!("its losses cannot be read: {error}"));
        losses(folder).map_err(|error| unreadable(error).at(folder.display()))
    };
    let (own, twin) = (read(run)?.unwrap_or_default(), read(twin)?.unwrap_or_default());
    Ok(twin::first_worse(&own, &twin).map(|worse| (worse.step + 1).saturating_sub(twin::WINDOW as u64)))
}

/// True if a combination's parts equal another's except on one axis, where the other has the baseline.
fn is_twin(own: &[(String, String)], other: &[(String, String)], baseline: &str) -> bool {
    let differing: Vec<_> = own.iter().zip(other).filter(|(own, other)| own != other).collect();
    own.len() == other.len() && matches!(&differing[..], [(_, (_, part))] if part == baseline)
}

/// Training losses of a run folder by step; `None` without the file or its column.
fn losses(folder: &Path) -> Result<Option<Vec<(u64, f64)>>, String> {
    let file = CsvFiles::read(folder)?.metrics;
    let of_file = |error: String| format!("`{}`: {error}", file.display());
    let Some(mut rows) = Rows::open(&folder.join(&file)).map_err(of_file)? else { return Ok(None) };
    let Some(column) = rows.column(LOSS.name) else { return Ok(None) };
    let mut losses = Vec::new();
    while let Some((step, cells)) = rows.next_row().map_err(of_file)? {
        losses.extend(number(&cells[column]).map(|loss| (step, loss)));
    }
    Ok(Some(losses))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn combination(parts: &[(&str, &str)]) -> Combination {
        let parts: Vec<_> = parts.iter().map(|(axis, part)| (axis.to_string(), part.to_string())).collect();
        let name = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("_");
        Combination { name, group: String::new(), parts, values: Vec::new(), tune: None, sets: Vec::new() }
    }

    #[test]
    fn a_run_that_is_worse_than_its_twin_is_reported_once() {
        let parts = |format, seed| combination(&[("format", format), ("seed", seed)]);
        let all = [parts("fp32", "s1"), parts("e4m3", "s1"), parts("e4m3", "s2"), parts("e7m0", "s1")];
        let folder = tempfile::tempdir().unwrap();
        let write = |run: &str, loss: f64| {
            let rows: String =
                (0..60).map(|step| format!("{step},{}\n", loss + f64::from(step % 7))).collect();
            fs::create_dir_all(folder.path().join(run)).unwrap();
            let file = if run == "fp32_s1" { "metrics.csv" } else { "own.csv" };
            fs::write(folder.path().join(run).join(file), format!("step,train/loss\n{rows}")).unwrap();
            let sink = format!("[[sink]]\nname = \"csv\"\npath = {file:?}\n");
            fs::write(folder.path().join(run).join("config.toml"), sink).unwrap();
        };
        let mut twins = Twins::new(&all, folder.path(), Some("fp32"));
        write("e4m3_s1", 2.0);
        write("e4m3_s2", 9.0);
        write("e7m0_s1", 3.0);
        assert!(twins.look_at(["e4m3_s1", "e7m0_s1"].into_iter()).is_empty(), "there is no twin yet");
        write("fp32_s1", 2.0);
        let found = twins.ended("fp32_s1");
        assert_eq!(
            found,
            ["e7m0_s1: worse than its baseline fp32_s1: by 20.2 % over the 50 steps up to step 49"]
        );
        assert!(twins.ended("e7m0_s1").is_empty(), "it is reported once");
        assert!(twins.ended("e4m3_s2").is_empty(), "a run of another seed is no twin");
        assert_eq!(twins.worse("e7m0_s1").map(|(twin, worse)| (twin, worse.step)), Some(("fp32_s1", 49)));
        assert!(twins.worse("e4m3_s1").is_none());
        assert!(Twins::new(&all, folder.path(), None).twin_of.is_empty());
        // A file that ends in an error is no shorter curve.
        let mut twins = Twins::new(&all, folder.path(), Some("fp32"));
        let file = folder.path().join("e7m0_s1/own.csv");
        let endless = format!("60,\"{}", "x".repeat(17 << 20));
        fs::write(&file, fs::read_to_string(&file).unwrap() + &endless).unwrap();
        assert!(twins.look_at(["e7m0_s1"].into_iter()).is_empty(), "it may be about to be written");
        let said = "e7m0_s1: it cannot be compared, because its losses cannot be read: `own.csv`: a line is longer than 16 MB";
        assert_eq!(twins.ended("e7m0_s1"), [said]);
    }
}
