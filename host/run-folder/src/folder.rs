//! The folder of a run: claimed before training, and the same set of files every time.
//!
//! `config.toml` (resolved), `run.json` (status, device, versions, plugins, timings), `weights.safetensors` at the
//! end, `checkpoints`, and what sinks write. A folder that already holds something is refused, unless the run goes on.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};

/// The status file: the first in the folder, and the sign that it is taken.
pub const STATUS: &str = "run.json";
/// The resolved run file, in a run folder and in each checkpoint.
pub const CONFIG: &str = "config.toml";
/// The final weights.
pub const WEIGHTS: &str = "weights.safetensors";
/// What to do about a folder that will not do.
const OTHER_PLACE: &str = "choose another folder with `--out DIR`";

/// What is wrong with a folder that a run is being written to.
const RUNNING: &str = "another process is running this run";

/// A claimed run folder.
#[derive(Debug)]
pub struct RunFolder {
    /// Absolute.
    path: PathBuf,
    /// The outermost folder that was made for it.
    created: Option<PathBuf>,
    /// Whether it holds an earlier part of the run.
    reopened: bool,
    /// Keeps other processes out while it is open; the system lets go of it however this process ends.
    _lock: Option<File>,
}

impl RunFolder {
    /// Whether a run may be written there.
    ///
    /// # Errors
    /// The folder holds something already, or is no folder.
    pub fn check(path: &Path) -> Result<(), Diagnostic> {
        if path.to_str().is_none() {
            // Sinks are told the folder as text.
            return Err(Diagnostic::config("the run folder's path is not UTF-8")
                .at(path.display())
                .hint(OTHER_PLACE));
        }
        let occupied = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => {
                return Err(Diagnostic::config(format!("the run folder cannot be used ({error})"))
                    .at(path.display())
                    .hint(OTHER_PLACE));
            }
        };
        if !occupied {
            return Ok(());
        }
        let goes_on = if Self::holds_a_run(path) { "`--resume` goes on with the run in it; " } else { "" };
        Err(Diagnostic::config("the run folder is not empty").at(path.display()).hint(format!(
            "{goes_on}runs never overwrite each other: use `--out DIR` or `--set run.name=NAME`, or delete the folder"
        )))
    }

    /// Makes the folder, where it does not exist.
    ///
    /// # Errors
    /// As [`Self::check`], or it cannot be made.
    pub fn claim(path: &Path) -> Result<Self, Diagnostic> {
        Self::check(path)?;
        let failed = |error: std::io::Error| {
            Diagnostic::config(format!("cannot make the run folder ({error})"))
                .at(path.display())
                .hint(OTHER_PLACE)
        };
        let path = std::path::absolute(path).map_err(failed)?;
        let created = path.ancestors().take_while(|folder| !folder.exists()).last().map(Path::to_path_buf);
        fs::create_dir_all(&path).map_err(failed)?;
        // Of two runs that found the folder empty at the same time, one gets it.
        File::create_new(path.join(STATUS)).map_err(failed)?;
        let lock = lock(&path, RUNNING)?;
        Ok(Self { path, created, reopened: false, _lock: lock })
    }

    /// Whether an earlier part of a run is there.
    #[must_use]
    pub fn holds_a_run(path: &Path) -> bool {
        path.to_str().is_some() && path.join(STATUS).is_file()
    }

    /// Takes the folder of a run that goes on.
    ///
    /// # Errors
    /// Another process is running it.
    pub fn reopen(path: &Path) -> Result<Self, Diagnostic> {
        let path = std::path::absolute(path)
            .map_err(|error| Diagnostic::config(format!("the run folder cannot be used ({error})")))?;
        let lock = lock(&path, RUNNING)?;
        Ok(Self { path, created: None, reopened: true, _lock: lock })
    }

    /// Absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of the folder: complete or not at all.
    ///
    /// # Errors
    /// The disk is full, or the folder has become read-only.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), Diagnostic> {
        let path = self.path.join(name);
        files::write(&path, contents).map_err(|error| {
            Diagnostic::run(format!("cannot write ({error})"))
                .at(path.display())
                .hint("is the disk full, or the folder gone or read-only?")
        })
    }

    /// Takes back a claim of a run that never started: removes what was made. All files are ours: the folder was empty,
    /// and the status file keeps other runs out.
    pub fn discard(self) {
        if self.reopened {
            return;
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        // Folders go only while they are empty, so nothing of others is touched.
        for folder in self.path.ancestors() {
            let ours = self.created.as_ref().is_some_and(|created| folder.starts_with(created));
            if !ours || fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Locks a folder until the file is closed; nothing where the system has no locks. `taken` is what is wrong if another
/// process holds it.
pub fn lock(path: &Path, taken: &str) -> Result<Option<File>, Diagnostic> {
    let Ok(folder) = File::open(path) else { return Ok(None) };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(Diagnostic::config(taken)
            .at(path.display())
            .hint("wait for it, stop it, or use another folder with `--out DIR`")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_occupied_folder_is_refused_and_a_discarded_claim_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("runs/exp");
        let folder = RunFolder::claim(&path).unwrap();
        folder.write("config.toml", b"x").unwrap();
        assert_eq!(RunFolder::claim(&path).unwrap_err().message, "the run folder is not empty");
        folder.discard();
        assert!(!root.path().join("runs").exists());
        assert!(root.path().exists());
    }
}
