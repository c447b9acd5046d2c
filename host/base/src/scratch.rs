//! Temporary files and folders of a process: removed with the value that represents them, or when a signal ends the
//! process first. SIGKILL removes nothing.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Clean-up actions by number, oldest first.
type Actions = BTreeMap<u64, Box<dyn FnOnce() + Send>>;

/// Pending clean-up actions, and the next number.
static PENDING: Mutex<(Actions, u64)> = Mutex::new((Actions::new(), 0));

fn pending() -> MutexGuard<'static, (Actions, u64)> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An action that runs once: when this is dropped, or before a signal ends the process.
#[derive(Debug)]
pub struct Cleanup {
    number: u64,
}

impl Cleanup {
    /// Registers `action`. It must not make or drop another [`Cleanup`].
    #[must_use]
    pub fn new(action: impl FnOnce() + Send + 'static) -> Self {
        Self::add(&mut pending(), action)
    }

    fn add(pending: &mut (Actions, u64), action: impl FnOnce() + Send + 'static) -> Self {
        let number = pending.1;
        pending.1 += 1;
        pending.0.insert(number, Box::new(action));
        Self { number }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let action = pending().0.remove(&self.number);
        action.into_iter().for_each(|action| action());
    }
}

/// Runs all pending clean-up actions, the newest first, because the process ends without dropping values. Until the
/// returned value is dropped, registering a new action waits.
#[must_use]
pub fn clean_up() -> impl Drop {
    let mut held = Held(pending());
    let actions = std::mem::take(&mut held.0.0);
    actions.into_values().rev().for_each(|action| action());
    held
}

/// Blocks the registration of actions while it exists.
struct Held(MutexGuard<'static, (Actions, u64)>);

impl Drop for Held {
    fn drop(&mut self) {}
}

/// Removes a folder with its content. A child process may write to it meanwhile, so the removal is repeated a few
/// times. A folder that cannot be removed is not an error.
fn remove(folder: &Path) {
    for _ in 0..20 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// A temporary folder.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _cleanup: Cleanup,
}

impl Scratch {
    /// Makes an empty folder, below the system's folder for temporary files or in another.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(below: Option<&Path>) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".altgrad-");
        // Locked until the folder's removal is registered.
        let mut pending = pending();
        let made = below.map_or_else(|| builder.tempdir(), |below| builder.tempdir_in(below))?;
        let path = std::path::absolute(made.path())?;
        // Nothing fails from here on, so the clean-up action removes the folder.
        let removed = made.keep();
        let cleanup = Cleanup::add(&mut pending, move || remove(&removed));
        Ok(Self { path, _cleanup: cleanup })
    }

    /// The folder, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_all_go_at_once() {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(root.path())).unwrap();
        fs::write(scratch.path().join("x"), "x").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let two = [Scratch::new(Some(root.path())).unwrap(), Scratch::new(Some(root.path())).unwrap()];
        drop(clean_up());
        assert!(two.iter().all(|scratch| !scratch.path().exists()));
        drop(two);
    }
}
