//! The folder for the bins while a preparation works in it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, scratch::Cleanup};

/// The file whose lock keeps other preparations out.
const LOCK: &str = ".lock";

/// A folder that no other preparation may write to. Dropped, it removes the folders it made that are empty: a
/// preparation that fails leaves nothing, nor one that a signal ends.
pub(super) struct Claim {
    _cleanup: Cleanup,
    _lock: File,
}

impl Claim {
    /// Makes the folder if it is not there, and locks it, where the file system has locks.
    ///
    /// # Errors
    /// The folder cannot be written, or another preparation uses it.
    pub(super) fn of(folder: &Path) -> Result<Self, Diagnostic> {
        let failed = |error: io::Error| {
            Diagnostic::config(format!("the folder cannot be written ({error})")).at(folder.display())
        };
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let mut made: Vec<PathBuf> = folder.ancestors().take_while(missing).map(PathBuf::from).collect();
        made.reverse();
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        // Any other error is of a file system without locks.
        if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Diagnostic::config("another preparation works in this folder")
                .at(folder.display())
                .hint("wait for it"));
        }
        let folder = folder.to_path_buf();
        Ok(Self { _cleanup: Cleanup::new(move || remove_empty(&folder, &made)), _lock: lock })
    }
}

/// Removes the folders that were `made`, outermost first, if the last of them holds nothing but the lock.
fn remove_empty(folder: &Path, made: &[PathBuf]) {
    let empty =
        fs::read_dir(folder).is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == LOCK));
    if empty && !made.is_empty() {
        fs::remove_file(folder.join(LOCK)).ok();
        for folder in made.iter().rev() {
            // Fails, as it should, if the folder has got other content meanwhile.
            fs::remove_dir(folder).ok();
        }
    }
}
