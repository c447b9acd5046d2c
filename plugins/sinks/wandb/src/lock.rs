//! The lock of a sink's folder: one process writes there. Ends with the process.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use altgrad_plugin_api::PluginError;

/// The time for another process to release the folder: one that was just killed, or a child of this one that is about
/// to start another program.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes sure that no other process has the folder open.
///
/// # Errors
/// `IO` if another process has it open, or the lock's file cannot be made.
pub(crate) fn lock(folder: &Path) -> Result<File, PluginError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|error| PluginError::io(&path, error))?;
    if is_held(|| file.try_lock()) {
        let hint = "is the run still going on? Two wandb sinks of one run need a `folder` each";
        return Err(PluginError::io(&path, "in use by another process or sink").with_hint(hint));
    }
    Ok(file)
}

/// True if another process holds a lock and does not release it in time. A file system without locks is no reason not
/// to write.
fn is_held(try_lock: impl Fn() -> Result<(), TryLockError>) -> bool {
    let start = Instant::now();
    while matches!(try_lock(), Err(TryLockError::WouldBlock)) {
        if start.elapsed() >= PATIENCE {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_only_if_another_process_has_it() {
        let without_locks = || Err(TryLockError::Error(std::io::ErrorKind::Unsupported.into()));
        assert!(!is_held(without_locks));
        assert!(!is_held(|| Ok(())));
        assert!(is_held(|| Err(TryLockError::WouldBlock)));
    }
}
