//! Runs named by a user: a run folder, a folder of run folders, or a CSV file.
//!
//! Folders are searched two levels deep. Everything that looked like a run and is none, and every folder beside runs
//! without readable files, is named with a reason; no error stops the search. The `sweep.json` of a sweep has the
//! labels of its runs, and the baseline and margin of their comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_run_folder::record::{ComparisonChoice, SWEEP_RESULT, SweepRecord};
use rayon::prelude::*;

use super::{causes, run::Run, sets};

/// Levels below a named folder at which runs are found.
const LEVELS: usize = 2;
/// The files that identify a run's folder.
const SIGNS: [&str; 3] = ["run.json", "metrics.csv", "config.toml"];

/// Paths that were named and are not shown, and files of sweeps that do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The folder or file.
    pub path: PathBuf,
    /// One sentence.
    pub reason: String,
}

/// Runs, in the order of their names, and the excluded ones.
#[derive(Debug, Default)]
pub struct FoundRuns {
    /// The runs.
    pub runs: Vec<Run>,
    /// Everything else that was named, and the results of sweeps that do not count.
    pub left_out: Vec<LeftOut>,
    /// The comparison that the sweeps of the runs request; the default one if two differ.
    pub choice: ComparisonChoice,
}

/// Reads every run that is named, on all threads.
#[must_use]
pub fn find(named: &[PathBuf]) -> FoundRuns {
    let (places, mut left_out) = search_all(named);
    let read: Vec<_> = places.par_iter().map(|path| (path, Run::read(path))).collect();
    let mut runs = Vec::new();
    for (path, read) in read {
        match read {
            Ok(run) => runs.push(run),
            Err(reason) => left_out.push(LeftOut { path: path.clone(), reason }),
        }
    }
    FoundRuns::new(runs, left_out)
}

impl FoundRuns {
    /// Sorts runs by name, gives those of sweeps their labels, tells different data apart, and adopts the comparison
    /// that the sweeps request.
    fn new(mut runs: Vec<Run>, mut left_out: Vec<LeftOut>) -> Self {
        runs.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
        let mut sweeps: BTreeMap<PathBuf, SweepRecord> = BTreeMap::new();
        for run in &mut runs {
            let (Some(folder), Some(name)) = (run.path.parent(), run.path.file_name()) else { continue };
            let sweep = sweeps.entry(folder.to_path_buf()).or_insert_with(|| sweep(folder, &mut left_out));
            run.label = name.to_str().and_then(|name| sweep.label(name));
        }
        sets::tell_data_apart(&mut runs);
        let choice = choice(&sweeps, &mut left_out);
        Self { runs, left_out, choice }
    }
}

/// The results of the sweep in a folder; empty ones if it is no sweep's.
fn sweep(folder: &Path, left_out: &mut Vec<LeftOut>) -> SweepRecord {
    SweepRecord::read(folder).map(Option::unwrap_or_default).unwrap_or_else(|error| {
        let reason = format!("{}: its labels, baseline and margin are not used", error.message);
        left_out.push(LeftOut { path: folder.join(SWEEP_RESULT), reason });
        SweepRecord::default()
    })
}

/// The comparison that sweeps request, if they agree. Sweeps that request none do not count.
fn choice(sweeps: &BTreeMap<PathBuf, SweepRecord>, left_out: &mut Vec<LeftOut>) -> ComparisonChoice {
    let mut requests = sweeps.iter().filter_map(|(folder, sweep)| Some((folder, sweep.compare.as_ref()?)));
    let Some((first, choice)) = requests.next() else { return ComparisonChoice::default() };
    let Some((other, _)) = requests.find(|(_, request)| *request != choice) else { return choice.clone() };
    let reason = format!(
        "its [compare] differs from that of {}: the default baseline and margin are used",
        first.join(SWEEP_RESULT).display()
    );
    left_out.push(LeftOut { path: other.join(SWEEP_RESULT), reason });
    ComparisonChoice::default()
}

/// Runs that are read again after their files have changed.
#[derive(Debug)]
pub struct Reader {
    named: Vec<PathBuf>,
    known: BTreeMap<PathBuf, Stamp>,
    found: FoundRuns,
    unread: BTreeMap<PathBuf, String>,
}

/// Names, lengths and times of change of a run's files.
type Stamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

impl Reader {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(named: &[PathBuf]) -> Self {
        Self {
            named: named.to_vec(),
            known: BTreeMap::new(),
            found: FoundRuns::default(),
            unread: BTreeMap::new(),
        }
    }

    /// The runs at present.
    pub fn look(&mut self) -> &FoundRuns {
        let (places, left_out) = search_all(&self.named);
        let stamps: BTreeMap<PathBuf, Stamp> =
            places.iter().map(|path| (path.clone(), stamp(path))).collect();
        let is_same =
            |path: &PathBuf| stamps.get(path).is_some_and(|stamp| self.known.get(path) == Some(stamp));
        // A run that is named by its file is at its folder.
        let of_place =
            |run: &Run| stamps.keys().find(|path| **path == run.path || path.parent() == Some(&*run.path));
        let mut runs = std::mem::take(&mut self.found.runs);
        runs.retain(|run| of_place(run).is_some_and(is_same));
        self.unread.retain(|path, _| is_same(path));
        let changed: Vec<&PathBuf> = places.iter().filter(|path| !is_same(path)).collect();
        let read: Vec<_> = changed.par_iter().map(|path| ((*path).clone(), Run::read(path))).collect();
        for (path, read) in read {
            match read {
                Ok(run) => runs.push(run),
                Err(reason) => drop(self.unread.insert(path, reason)),
            }
        }
        let unread =
            self.unread.iter().map(|(path, reason)| LeftOut { path: path.clone(), reason: reason.clone() });
        let left_out = left_out.into_iter().chain(unread).collect();
        self.known = stamps;
        self.found = FoundRuns::new(runs, left_out);
        &self.found
    }
}

fn stamp(path: &Path) -> Stamp {
    let files: Vec<PathBuf> = match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_path_buf()],
    };
    let of = |path: PathBuf| {
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((path, metadata.len(), metadata.modified().ok()))
    };
    let causes = causes::folder(path).join(causes::RECORD);
    let mut stamp: Stamp = files.into_iter().chain([causes]).filter_map(of).collect();
    stamp.sort();
    stamp
}

/// The folders of the named runs.
pub(super) fn places(named: &[PathBuf]) -> Vec<PathBuf> {
    search_all(named).0
}

fn search_all(named: &[PathBuf]) -> (Vec<PathBuf>, Vec<LeftOut>) {
    let (mut places, mut left_out) = (Vec::new(), Vec::new());
    for path in named {
        search(path, LEVELS, &mut places, &mut left_out);
    }
    let mut known = BTreeSet::new();
    places.retain(|path| known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    (places, left_out)
}

/// Collects the runs at and below a path.
fn search(path: &Path, levels: usize, places: &mut Vec<PathBuf>, left_out: &mut Vec<LeftOut>) {
    let mut leave_out = |reason: String| left_out.push(LeftOut { path: path.to_path_buf(), reason });
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return leave_out("it does not exist".into());
        }
        Err(error) => return leave_out(error.to_string()),
    };
    if metadata.is_file() || SIGNS.iter().any(|sign| path.join(sign).exists()) {
        return places.push(path.to_path_buf());
    }
    if !metadata.is_dir() {
        return leave_out("it is neither a folder nor a regular file".into());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()),
        Err(error) => return leave_out(error.to_string()),
    };
    let entries: Vec<PathBuf> = entries.collect();
    let mut folders: Vec<&PathBuf> =
        entries.iter().filter(|path| path.is_dir() && !is_hidden(path)).collect();
    folders.sort();
    let before = places.len();
    let mut inside = Vec::new();
    if levels > 0 {
        folders.iter().for_each(|folder| search(folder, levels - 1, places, &mut inside));
    }
    if places.len() > before {
        left_out.append(&mut inside);
    } else {
        leave_out(match entries.len() {
            0 => "it is empty".into(),
            _ => format!("it is no run folder and holds none: no {} here or below", SIGNS.join(", ")),
        });
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
