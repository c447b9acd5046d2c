//! Runs in progress: steps, losses, their differences from those of the twin, and alerts.
//!
//! [`Follower::look`] reads only the new parts of files, so that a look takes little time compared with a step. A twin
//! is the unquantized run of the same seed that differs only in rounding.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_base::statistics::median;
use altgrad_metrics::families::{
    speed::TOKENS_PER_S,
    training::{LOSS, VAL_LOSS},
};
use altgrad_run_folder::{events::EVENTS, folder::STATUS};
use serde::Serialize;

use super::{
    events, find,
    run::{self, RunState},
    run_file::RunFile,
    series::Series,
    sets::{are_twins, have_other_data},
    status::Status,
    tail::{NewRows, Tail},
};

/// Values of a curve.
const CURVE: usize = 32;
/// Recorded steps whose rates give the present one: a single step may be much slower, such as one that writes a
/// checkpoint.
const RATES: usize = 16;
/// Readings between two searches for new runs.
const SEARCH_EVERY: u32 = 4;

/// Runs that are followed.
#[derive(Debug)]
pub struct Follower {
    named: Vec<PathBuf>,
    looks: u32,
    runs: BTreeMap<PathBuf, Followed>,
    /// The runs whose run file is known, and each one's twin among them: searched for again when there are others.
    twins: BTreeMap<PathBuf, Option<PathBuf>>,
}

/// A run in one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveRun {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// Its status, in a word or two.
    pub state: &'static str,
    /// True if it is running.
    pub is_running: bool,
    /// Steps done.
    pub step: u64,
    /// Steps it is to do.
    pub steps: Option<u64>,
    /// Loss of the last step's batch, nats per token.
    pub loss: Option<f64>,
    /// The newest held-out loss, nats per token; none if it is not finite.
    pub held_out: Option<f64>,
    /// Held-out loss minus its twin's, at the last step that both evaluated.
    pub against_twin: Option<f64>,
    /// Alerts so far.
    pub alerts: usize,
    /// The newest alert.
    pub last_alert: Option<String>,
    /// Training tokens per second: the median of the last recorded steps.
    pub tokens_per_s: Option<f64>,
    /// Seconds to its end, evaluations not counted.
    pub eta_s: Option<f64>,
    /// Means of the training loss over equal parts of the run so far.
    pub curve: Vec<f64>,
}

/// The known facts about a run.
#[derive(Debug)]
struct Followed {
    config: RunFile,
    status: Option<Status>,
    /// Of `run.json` when it was read: device, inode, length and time of change. The clock of a file system ticks every
    /// few milliseconds, so that two files written in a row can have one time.
    status_file: Option<(u64, u64, u64, SystemTime)>,
    /// True if it ended and all of its rows were read.
    is_done: bool,
    state: RunState,
    metrics: Tail,
    timings: Tail,
    curve: Series,
    step: u64,
    loss: Option<f64>,
    evaluations: BTreeMap<u64, f64>,
    /// Training tokens per second of the last recorded steps.
    rates: Vec<f64>,
    alerts: Vec<String>,
    /// Length of `events.jsonl` when it was read.
    events: u64,
}

impl Follower {
    /// Follows the runs at and below some paths, those included that begin later.
    #[must_use]
    pub fn new(named: &[PathBuf]) -> Self {
        Self { named: named.to_vec(), looks: 0, runs: BTreeMap::new(), twins: BTreeMap::new() }
    }

    /// Reads the new parts.
    pub fn look(&mut self) {
        if self.looks.is_multiple_of(SEARCH_EVERY) {
            let places = find::places(&self.named);
            let mut known = std::mem::take(&mut self.runs);
            let run = |path: PathBuf| (known.remove(&path).unwrap_or_else(|| Followed::new(&path)), path);
            self.runs = places.into_iter().map(run).map(|(run, path)| (path, run)).collect();
        }
        self.looks = self.looks.wrapping_add(1);
        self.runs.iter_mut().for_each(|(path, run)| run.look(path));
        self.pair();
    }

    /// Finds the twins, if runs were added or removed or a run file became known.
    fn pair(&mut self) {
        let known = || self.runs.iter().filter(|(_, run)| !run.config.is_empty());
        if known().map(|(path, _)| path).eq(self.twins.keys()) {
            return;
        }
        let is_twin = |run: &Followed, other: &Followed| {
            are_twins(&run.config, &other.config)
                && !have_other_data(run.status.as_ref(), other.status.as_ref())
        };
        let twin = |run: &Followed| known().find(|(_, other)| is_twin(run, other));
        let pairs = known().map(|(path, run)| (path.clone(), twin(run).map(|(twin, _)| twin.clone())));
        self.twins = pairs.collect();
    }

    /// The runs, by folder.
    #[must_use]
    pub fn runs(&self) -> Vec<LiveRun> {
        self.runs.iter().map(|(path, run)| run.line(path, self.twin(path))).collect()
    }

    fn twin(&self, of: &Path) -> Option<&Followed> {
        self.runs.get(self.twins.get(of)?.as_ref()?)
    }
}

impl Followed {
    fn new(path: &Path) -> Self {
        let config = RunFile::read(&path.join("config.toml")).unwrap_or_default();
        let [metrics, timings] = tails(path, &config);
        Self {
            status: None,
            status_file: None,
            is_done: false,
            state: RunState::Unknown,
            metrics,
            timings,
            curve: Series::new(2 * CURVE),
            step: 0,
            loss: None,
            evaluations: BTreeMap::new(),
            rates: Vec::new(),
            alerts: Vec::new(),
            events: 0,
            config,
        }
    }

    fn look(&mut self, path: &Path) {
        if self.config.is_empty() {
            self.config = RunFile::read(&path.join("config.toml")).unwrap_or_default();
            if !self.config.is_empty() {
                [self.metrics, self.timings] = tails(path, &self.config);
            }
        }
        let file = std::fs::metadata(path.join(STATUS)).ok();
        let file = file.and_then(|file| Some((file.dev(), file.ino(), file.len(), file.modified().ok()?)));
        if file.is_none() || file != self.status_file {
            self.is_done = false;
            self.status = Status::read(&path.join(STATUS)).ok().flatten();
            self.status_file = file;
        }
        if self.is_done {
            return;
        }
        // A run without new rows may have ended; the time of its last write decides.
        self.state = run::state(self.status.as_ref(), self.metrics.path());
        let rows = self.metrics.look();
        if rows.is_anew {
            self.curve = Series::new(2 * CURVE);
            self.evaluations.clear();
        }
        self.take(&rows);
        self.is_done = self.state.has_ended() && rows.rows.is_empty();
        let timings = self.timings.look();
        if timings.is_anew {
            self.rates.clear();
        }
        if let Some(rate) = column(&timings, TOKENS_PER_S.name) {
            self.rates.extend(timings.rows.iter().filter_map(|row| row[rate].parse::<f64>().ok()));
            self.rates.drain(..self.rates.len().saturating_sub(RATES));
        }
        let events = path.join(EVENTS);
        let length = std::fs::metadata(&events).map_or(0, |metadata| metadata.len());
        if length != self.events {
            let read = events::read(&events).map(|(events, _)| events).unwrap_or_default();
            let alerts = read.into_iter().filter(|event| event.is_alert());
            self.alerts = alerts.map(|alert| format!("step {}: {}", alert.step, alert.text)).collect();
            self.events = length;
        }
    }

    fn take(&mut self, rows: &NewRows) {
        let Some(step) = column(rows, "step") else { return };
        let (loss, held_out) = (column(rows, LOSS.name), column(rows, VAL_LOSS.name));
        for row in &rows.rows {
            let Ok(step) = row[step].parse::<u64>() else { continue };
            let value = |column: Option<usize>| row[column?].parse::<f64>().ok();
            // The row of step 0 is written when one step is done; that of the final evaluation is of no step.
            if loss.is_none_or(|loss| !row[loss].is_empty()) {
                self.step = step.saturating_add(1);
                self.loss = value(loss);
                self.loss.into_iter().for_each(|loss| self.curve.add(step, loss));
            }
            self.evaluations.extend(value(held_out).map(|loss| (step, loss)));
        }
    }

    /// The newest held-out loss; none if it is not finite: the last good one would flatter the run.
    fn held_out(&self) -> Option<f64> {
        self.evaluations.last_key_value().map(|(_, loss)| *loss).filter(|loss| loss.is_finite())
    }

    /// The held-out loss minus another run's, at the last step that both evaluated.
    fn minus(&self, other: &Self) -> Option<f64> {
        self.held_out().and(other.held_out())?;
        let at = |(step, loss): (&u64, &f64)| Some(loss - other.evaluations.get(step)?);
        let mut trained = self.evaluations.iter().rev().filter(|(step, _)| **step > 0);
        trained.find_map(|evaluation| at(evaluation).filter(|difference| difference.is_finite()))
    }

    fn line(&self, path: &Path, twin: Option<&Self>) -> LiveRun {
        let config = |key: &str| self.config.get(key).and_then(|value| value.parse::<u64>().ok());
        let steps = config("train.max_steps");
        let step = if self.state == RunState::Completed {
            self.status.as_ref().and_then(|status| status.steps).unwrap_or(self.step)
        } else {
            self.step
        };
        let is_running = self.state == RunState::Running;
        let of_run = || self.status.as_ref().and_then(|status| status.tokens_per_s);
        let tokens_per_s = median(self.rates.iter().copied()).or_else(of_run);
        let rate = tokens_per_s.filter(|rate| *rate > 0.0 && is_running);
        let left = steps.map(|steps| steps.saturating_sub(step) as f64);
        let eta_s = rate
            .zip(self.config.tokens_per_step())
            .zip(left)
            .map(|((rate, tokens), left)| left * tokens / rate);
        LiveRun {
            name: run::name(path, self.status.as_ref().unwrap_or(&Status::default())),
            folder: path.display().to_string(),
            state: self.state.name(),
            is_running,
            step,
            steps,
            loss: self.loss.filter(|loss| loss.is_finite()),
            held_out: self.held_out(),
            against_twin: twin.and_then(|twin| self.minus(twin)),
            alerts: self.alerts.len(),
            last_alert: self.alerts.last().cloned(),
            tokens_per_s,
            eta_s,
            curve: self.curve.means(CURVE).into_iter().map(|(_, mean)| mean).collect(),
        }
    }
}

/// The csv sink's files of metrics and timings.
fn tails(path: &Path, config: &RunFile) -> [Tail; 2] {
    let files = config.csv_files();
    let metrics = if path.is_file() { path.to_path_buf() } else { path.join(&files.metrics) };
    [Tail::new(metrics), Tail::new(path.join(&files.timings))]
}

fn column(rows: &NewRows, name: &str) -> Option<usize> {
    rows.header.iter().position(|own| own == name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    /// An unfinished run with these rows of step, training loss and held-out loss.
    fn run(folder: &Path, name: &str, weight: &str, rows: &str) {
        let path = folder.join(name);
        fs::create_dir_all(&path).unwrap();
        let config = format!(
            "[run]\nname = {name:?}\nseed = 3\n[data]\nbatch_size = 2\nblock_size = 10\n[quant]\nweight = {weight:?}\n\
             [train]\nmax_steps = 100\ngrad_accum = 1\n"
        );
        fs::write(path.join("config.toml"), config).unwrap();
        fs::write(path.join("metrics.csv"), format!("step,train/loss,val/loss\n{rows}")).unwrap();
        let rate = TOKENS_PER_S.name;
        fs::write(path.join("timings.csv"), format!("step,{rate}\n0,40\n1,41\n2,1\n")).unwrap();
        let now = altgrad_run_folder::events::unix_s().unwrap();
        let status = format!("{{\"status\": \"running\", \"name\": {name:?}, \"updated_unix_s\": {now}}}");
        fs::write(path.join(STATUS), status).unwrap();
    }

    #[test]
    fn a_run_is_held_against_its_twin_at_the_last_step_of_both() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "a", "E4M3", "0,5,5.5\n1,4,4.75\n2,3,4.0\n");
        run(folder.path(), "b", "none", "0,5,5.5\n1,4,4.5\n");
        let mut follower = Follower::new(&[folder.path().to_path_buf()]);
        follower.look();
        let [a, b] = &follower.runs()[..] else { panic!("two runs") };
        assert_eq!((a.step, a.steps, a.loss, a.held_out), (3, Some(100), Some(3.0), Some(4.0)));
        assert_eq!((a.against_twin, b.against_twin), (Some(0.25), None));
        // 97 steps of 20 tokens at 40 tokens per second, the median.
        assert_eq!((a.tokens_per_s, a.eta_s), (Some(40.0), Some(48.5)));
        assert_eq!(a.curve, [5.0, 4.0, 3.0]);
        // The next row of the twin, and an alert.
        let metrics = folder.path().join("b/metrics.csv");
        fs::write(&metrics, fs::read_to_string(&metrics).unwrap() + "2,3,3.5\n3,,3.25\n").unwrap();
        let alert =
            "{\"step\":2,\"level\":\"warn\",\"kind\":\"overflow\",\"text\":\"much\",\"value\":null}\n";
        let failed = "{\"step\":3,\"level\":\"error\",\"kind\":\"failed\",\"text\":\"no disk\"}\n";
        fs::write(folder.path().join("a").join(EVENTS), format!("{alert}{failed}")).unwrap();
        follower.look();
        let [a, b] = &follower.runs()[..] else { panic!("two runs") };
        assert_eq!((b.step, b.loss, b.held_out), (3, Some(3.0), Some(3.25)), "a final evaluation is no step");
        // The end of the run is no alert.
        assert_eq!((a.against_twin, a.alerts, a.last_alert.as_deref()), (Some(0.5), 1, Some("step 2: much")));
    }

    #[test]
    fn a_status_that_is_replaced_within_a_tick_of_the_clock_is_read() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "a", "none", "0,5,5.5\n");
        let mut follower = Follower::new(&[folder.path().to_path_buf()]);
        follower.look();
        assert!(follower.runs()[0].is_running);
        let status = folder.path().join("a").join(STATUS);
        let written = fs::metadata(&status).unwrap().modified().unwrap();
        let failed = fs::read_to_string(&status).unwrap().replace("\"running\"", "\"failed\" ");
        let beside = folder.path().join("beside");
        fs::write(&beside, failed).unwrap();
        fs::File::options().write(true).open(&beside).unwrap().set_modified(written).unwrap();
        fs::rename(&beside, &status).unwrap();
        follower.look();
        assert_eq!(follower.runs()[0].state, "failed");
    }

    #[test]
    fn a_held_out_loss_that_is_not_finite_has_no_difference_from_the_twin() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "a", "E4M3", "0,5,5.5\n1,4,4.75\n2,3,NaN\n3,3,4.0\n");
        run(folder.path(), "b", "none", "0,5,5.5\n1,4,4.5\n2,3,3.5\n");
        let mut follower = Follower::new(&[folder.path().to_path_buf()]);
        let mut look = || {
            follower.look();
            let run = follower.runs().remove(0);
            (run.held_out, run.against_twin)
        };
        assert_eq!(look(), (Some(4.0), Some(0.25)), "step 2 has no difference");
        let metrics = folder.path().join("a/metrics.csv");
        fs::write(&metrics, fs::read_to_string(&metrics).unwrap() + "4,2,NaN\n").unwrap();
        assert_eq!(look(), (None, None), "its last good losses would flatter it");
    }

    #[test]
    fn files_of_a_sink_with_other_names_are_found_once_the_run_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), "a", "none", "0,5,5.5\n");
        let path = |name: &str| folder.path().join("a").join(name);
        let config = fs::read_to_string(path("config.toml")).unwrap();
        fs::remove_file(path("config.toml")).unwrap();
        fs::rename(path("metrics.csv"), path("own.csv")).unwrap();
        let mut follower = Follower::new(&[folder.path().to_path_buf()]);
        follower.look();
        assert_eq!(follower.runs()[0].held_out, None);
        fs::write(path("config.toml"), config + "[[sink]]\nname = \"csv\"\npath = \"own.csv\"\n").unwrap();
        follower.look();
        assert_eq!(follower.runs()[0].held_out, Some(5.5));
    }
}
