//! What a process records when it takes its run folder.

use std::{fs, path::PathBuf};

use crate::reserve;

/// The information that a process records when it takes its run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The folder, absolute.
    pub path: PathBuf,
    /// The outermost folder that was made for it.
    pub created: Option<PathBuf>,
    /// True if it held an earlier part of the run.
    pub reopened: bool,
}

impl Claim {
    /// Removes the folder's files, and the folders that were made for it. If it held an earlier part of the run,
    /// removes temporary files only.
    pub(crate) fn remove(&self) {
        if self.reopened {
            return reserve::remove(&self.path);
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        // Folders are removed only while they are empty, so no other files are touched.
        for folder in self.path.ancestors() {
            let ours = self.created.as_ref().is_some_and(|created| folder.starts_with(created));
            if !ours || fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}
