//! From what a user names to runs: a run folder, a folder of run folders, or a CSV file.
//!
//! Folders are searched two levels deep. Everything that looked like a run and is none, and every folder beside runs
//! that holds nothing to read, is named with a reason; nothing that is found here stops the rest.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use altgrad_run_folder::record::ComparisonChoice;
use rayon::prelude::*;

use super::run::Run;

/// Levels below a named folder at which runs are found.
const LEVELS: usize = 2;
/// What makes a folder a run's.
const SIGNS: [&str; 3] = ["run.json", "metrics.csv", "config.toml"];

/// What was named and is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The folder or file.
    pub path: PathBuf,
    /// One sentence.
    pub reason: String,
}

/// Runs, in the order of their names, and what was left out.
#[derive(Debug, Default)]
pub struct FoundRuns {
    /// The runs.
    pub runs: Vec<Run>,
    /// Everything else that was named.
    pub left_out: Vec<LeftOut>,
    /// How the first sweep among the named folders wants its runs to be compared.
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
    runs.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    let choice = named.iter().find_map(|path| ComparisonChoice::of_sweep(path)).unwrap_or_default();
    FoundRuns { runs, left_out, choice }
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
