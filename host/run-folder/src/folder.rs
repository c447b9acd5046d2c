//! The folder of a run: claimed before training, with a fixed set of files.
//!
//! `config.toml` (resolved), `run.json` (status, device, versions, plugins, timings), `weights.safetensors` at the end,
//! `checkpoints`, the files of sinks, and `.lock`. A folder that is not empty is refused, unless the run is resumed.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use altgrad_base::{diagnostic::Diagnostic, files};

use crate::{
    claim::Claim,
    place::{self, Place},
    reserve,
};

/// The status file, written first: it marks the folder as taken.
pub const STATUS: &str = "run.json";
/// The resolved run file, in a run folder and in each checkpoint.
pub const CONFIG: &str = "config.toml";
/// The final weights.
pub const WEIGHTS: &str = "weights.safetensors";
/// The folder of checkpoints in a run folder.
pub const CHECKPOINTS: &str = "checkpoints";
/// The file whose lock keeps other processes out of a folder.
const LOCK: &str = ".lock";
/// The hint about a folder that cannot be used.
const OTHER_PLACE: &str = "choose another folder with `--out DIR`";

/// The fault of a folder into which a run writes.
const RUNNING: &str = "another process is running this run";

/// The time limit for a folder's lock: a killed process may be about to release it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two attempts.
const RETRY: Duration = Duration::from_millis(10);

/// A claimed run folder.
#[derive(Debug)]
pub struct RunFolder {
    /// The path, and the files that were made for it.
    claim: Claim,
    /// The open folder, at any path. None where folders cannot be opened.
    held: Option<File>,
    /// Keeps other processes out. The system releases it however this process ends. None where the file system has no
    /// locks.
    _lock: Option<File>,
}

impl RunFolder {
    /// Checks that a run may write to the folder.
    ///
    /// # Errors
    /// The folder is not empty, cannot be written or made, or the path is no folder.
    pub fn check(path: &Path) -> Result<(), Diagnostic> {
        if path.to_str().is_none() {
            // Sinks receive the folder as text.
            return Err(Diagnostic::config("the run folder's path is not UTF-8")
                .at(path.display())
                .hint(OTHER_PLACE));
        }
        let occupied = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
                Ok(target) => {
                    let message =
                        format!("the run folder is a link to {}, which does not exist", target.display());
                    return Err(Diagnostic::config(message)
                        .at(path.display())
                        .hint(format!("make that folder, remove the link, or {OTHER_PLACE}")));
                }
                Err(_) => false,
            },
            Err(error) => {
                return Err(Diagnostic::config(format!("the run folder cannot be used ({error})"))
                    .at(path.display())
                    .hint(OTHER_PLACE));
            }
        };
        if !occupied {
            return writable(path).map_err(|error| cannot_make(path, &error));
        }
        if is_locked(path) {
            return Err(running(path));
        }
        let holds_a_run = Self::holds_a_run(path);
        if !holds_a_run && path.join(CHECKPOINTS).is_dir() {
            return Err(Diagnostic::config(format!("the run folder has checkpoints and no {STATUS}"))
                .at(path.display())
                .hint(format!(
                    "to continue from them in another folder: `--resume {}/last --out DIR`",
                    path.join(CHECKPOINTS).display()
                )));
        }
        let goes_on = if holds_a_run { "`--resume` resumes the run in it; " } else { "" };
        Err(Diagnostic::config("the run folder is not empty")
            .at(path.display())
            .hint(format!("{goes_on}runs never overwrite each other: use `--out DIR`, or delete the folder")))
    }

    /// Makes the folder, if it does not exist.
    ///
    /// # Errors
    /// As [`Self::check`], or the folder cannot be made.
    pub fn claim(path: &Path) -> Result<Self, Diagnostic> {
        Self::check(path)?;
        let failed = |error: std::io::Error| cannot_make(path, &error);
        let path = std::path::absolute(path).map_err(failed)?;
        let created = path.ancestors().take_while(|folder| !folder.exists()).last().map(Path::to_path_buf);
        fs::create_dir_all(&path).map_err(failed)?;
        // Of two runs that found the folder empty at the same time, one gets it.
        File::create_new(path.join(STATUS)).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => running(&path),
            _ => cannot_make(&path, &error),
        })?;
        let lock = lock(&path, RUNNING)?;
        Ok(Self::locked(Claim { path, created, reopened: false }, lock))
    }

    fn locked(claim: Claim, lock: Option<File>) -> Self {
        Self { held: File::open(&claim.path).ok(), claim, _lock: lock }
    }

    /// True if an earlier part of a run is there.
    #[must_use]
    pub fn holds_a_run(path: &Path) -> bool {
        path.to_str().is_some() && path.join(STATUS).is_file()
    }

    /// Takes the folder of a resumed run, and removes temporary files of its earlier processes. Waits up to two seconds
    /// for a process that is running it, because one that was killed may take a moment to end.
    ///
    /// # Errors
    /// Another process uses the folder.
    pub fn reopen(path: &Path) -> Result<Self, Diagnostic> {
        let path = std::path::absolute(path)
            .map_err(|error| Diagnostic::config(format!("the run folder cannot be used ({error})")))?;
        let lock = lock_patiently(&path)?;
        if lock.is_some() {
            reserve::remove(&path);
        }
        Ok(Self::locked(Claim { path, created: None, reopened: true }, lock))
    }

    /// Takes the folder of a process that has ended.
    ///
    /// # Errors
    /// Another process uses the folder.
    pub(crate) fn taken_over(claim: Claim) -> Result<Self, Diagnostic> {
        let lock = lock(&claim.path, RUNNING)?;
        Ok(Self::locked(claim, lock))
    }

    /// The folder's path, and the files that were made for it.
    #[must_use]
    pub fn as_claim(&self) -> &Claim {
        &self.claim
    }

    /// Absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.claim.path
    }

    /// Writes a file of the folder: complete or not at all.
    ///
    /// # Errors
    /// The disk is full, or the folder has become read-only.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), Diagnostic> {
        let path = self.claim.path.join(name);
        files::write(&path, contents).map_err(|error| {
            Diagnostic::run(format!("cannot write ({error})"))
                .at(path.display())
                .hint("is the disk full, or is the folder deleted or read-only?")
        })
    }

    /// Reserves disk space for [`Self::write_last`], for the case that the disk is full by then.
    ///
    /// # Errors
    /// The disk is full, or the folder has become read-only.
    pub fn reserve(&self) -> Result<(), Diagnostic> {
        let known = fs::metadata(self.path().join(STATUS)).map_or(0, |status| status.len());
        reserve::reserve(self.path(), known).map_err(|error| {
            Diagnostic::run(format!("cannot set room aside for the run's last status ({error})"))
                .at(self.path().display())
                .hint("is the disk full, or is the folder deleted or read-only?")
        })
    }

    /// Writes a file of the folder for the last time, into the reserved space, which is then used up: complete or not
    /// at all.
    ///
    /// # Errors
    /// The folder has become read-only, or the disk is full and no space was reserved, or too little.
    pub fn write_last(&self, name: &str, contents: &[u8]) -> Result<(), Diagnostic> {
        match reserve::write_into_reserve(self.path(), name, contents) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => self.write(name, contents),
        }
    }

    /// Checks whether the folder is still in its place. After a rename, its new path is used.
    ///
    /// # Errors
    /// The folder was renamed or deleted: each call then returns this error.
    pub fn check_location(&mut self) -> Result<(), Diagnostic> {
        let Some(held) = &self.held else { return Ok(()) };
        match place::of(held, &self.claim.path) {
            Place::Same => Ok(()),
            Place::Renamed(path) => {
                let was = std::mem::replace(&mut self.claim.path, path);
                let now = self.claim.path.display();
                Err(Diagnostic::run(format!("the run folder was renamed during the run: it is {now} now"))
                    .at(was.display()))
            }
            Place::Deleted => Err(Diagnostic::run("the run folder was deleted during the run")
                .at(self.claim.path.display())
                .hint("its files are lost; start the run again with `--out DIR`")),
        }
    }

    /// Discards the claim of a run that never started: removes its files. The folder was empty, and the status file
    /// keeps other runs out, so all files belong to this run.
    pub fn discard(self) {
        self.claim.remove();
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::config(format!("cannot make the run folder ({error})")).at(path.display()).hint(OTHER_PLACE)
}

/// Whether this process may write to a folder, or to the nearest folder above it that exists.
#[cfg(target_os = "linux")]
fn writable(path: &Path) -> io::Result<()> {
    use rustix::fs::Access;

    let path = std::path::absolute(path)?;
    match path.ancestors().find(|folder| folder.exists()) {
        Some(folder) => Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?),
        None => Ok(()),
    }
}

/// Other systems answer when the folder is made.
#[cfg(not(target_os = "linux"))]
fn writable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// [`lock`], tried for [`PATIENCE`].
fn lock_patiently(path: &Path) -> Result<Option<File>, Diagnostic> {
    let begun = Instant::now();
    loop {
        match lock(path, RUNNING) {
            Err(_) if begun.elapsed() < PATIENCE => thread::sleep(RETRY),
            locked => return locked,
        }
    }
}

/// Locks a folder until the file is closed, by a file in it: on NFS, locks of folders do not reach other nodes. `None`
/// where the file system has no locks, or the file cannot be made. `taken` is the error if another process holds it.
pub fn lock(path: &Path, taken: &str) -> Result<Option<File>, Diagnostic> {
    let Ok(file) = File::options().create(true).append(true).open(path.join(LOCK)) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(in_use(path, taken)),
    }
}

/// True if another process holds the folder. Makes no file.
fn is_locked(path: &Path) -> bool {
    let file = File::options().append(true).open(path.join(LOCK));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn running(path: &Path) -> Diagnostic {
    in_use(path, RUNNING)
}

fn in_use(path: &Path, taken: &str) -> Diagnostic {
    Diagnostic::config(taken)
        .at(path.display())
        .hint("wait for it, stop it, or use another folder with `--out DIR`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_status_goes_where_room_was_set_aside_and_nothing_else_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let folder = RunFolder::claim(&path).unwrap();
        folder.write(STATUS, b"first").unwrap();
        folder.reserve().unwrap();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), [".altgrad-reserve", LOCK, STATUS]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let reserve = fs::metadata(path.join(".altgrad-reserve")).unwrap();
            assert!(reserve.blocks() * 512 >= 1 << 18, "{} blocks", reserve.blocks());
        }
        folder.write_last(STATUS, b"last").unwrap();
        let expected = (b"last".to_vec(), vec![LOCK.into(), STATUS.into()]);
        assert_eq!((fs::read(path.join(STATUS)).unwrap(), names()), expected);
        // Without reserved space it is an ordinary write.
        folder.write_last(STATUS, b"once more").unwrap();
        assert_eq!(fs::read(path.join(STATUS)).unwrap(), b"once more");
        // Files of a killed process are removed when the next process takes the folder.
        folder.reserve().unwrap();
        fs::write(path.join(".altgrad-x1y2z3"), "half").unwrap();
        drop(folder);
        RunFolder::reopen(&path).unwrap();
        assert_eq!(names(), [LOCK, STATUS]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_is_renamed_or_deleted_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let (path, other) = (root.join("run"), root.join("other"));
        let mut folder = RunFolder::claim(&path).unwrap();
        folder.check_location().unwrap();
        fs::rename(&path, &other).unwrap();
        // Another one in its place changes nothing.
        fs::create_dir(&path).unwrap();
        let said = folder.check_location().unwrap_err().to_string();
        assert!(said.contains(&format!("it is {} now", other.display())), "{said}");
        assert_eq!(folder.path(), other);
        folder.write(STATUS, b"x").unwrap();
        folder.check_location().unwrap();
        fs::remove_dir_all(&other).unwrap();
        assert!(folder.check_location().unwrap_err().message.contains("was deleted"));
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_refused_for_its_reason() {
        let root = tempfile::tempdir().unwrap();
        let refused = |path: &Path| RunFolder::check(path).unwrap_err().message;
        let path = root.path().join("run");
        let folder = RunFolder::claim(&path).unwrap();
        assert_eq!(refused(&path), RUNNING);
        drop(folder);
        assert_eq!(refused(&path), "the run folder is not empty");
        fs::create_dir(path.join(CHECKPOINTS)).unwrap();
        fs::remove_file(path.join(STATUS)).unwrap();
        assert_eq!(refused(&path), "the run folder has checkpoints and no run.json");
        #[cfg(unix)]
        {
            let link = root.path().join("link");
            std::os::unix::fs::symlink("gone", &link).unwrap();
            assert_eq!(refused(&link), "the run folder is a link to gone, which does not exist");
        }
    }

    #[test]
    fn sinks_may_not_take_the_names_of_these_files() {
        for name in [STATUS, CONFIG, WEIGHTS, LOCK, crate::events::EVENTS] {
            assert!(altgrad_plugin_api::HOST_NAMES.contains(&name), "{name}");
        }
    }

    /// Before a run begins, and without making anything.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_cannot_be_made_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let paths = [root.path().to_path_buf(), root.path().join("runs/exp")];
        for error in as_other_user(|| paths.map(|path| RunFolder::check(&path).unwrap_err())) {
            assert!(error.message.starts_with("cannot make the run folder (Permission denied"), "{error}");
        }
    }

    /// Calls a function on a thread to which the permissions of files apply, also where the user is root.
    #[cfg(target_os = "linux")]
    fn as_other_user<T: Send>(call: impl FnOnce() -> T + Send) -> T {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let limited = || {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::DAC_OVERRIDE);
            sets.permitted.remove(CapabilitySet::DAC_OVERRIDE);
            set_capabilities(None, sets).unwrap();
            call()
        };
        thread::scope(|scope| scope.spawn(limited).join().unwrap())
    }

    /// NFS has locks of regular files only.
    #[test]
    fn one_process_has_a_folder_by_the_lock_of_a_regular_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let folder = RunFolder::claim(&path).unwrap();
        let file = || File::open(path.join(LOCK)).unwrap();
        assert!(file().metadata().unwrap().is_file() && file().try_lock().is_err());
        assert_eq!(lock(&path, "taken").unwrap_err().message, "taken");
        drop(folder);
        assert!(lock(&path, "taken").unwrap().is_some());
    }

    #[test]
    fn an_occupied_folder_is_refused_and_a_discarded_claim_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("runs/exp");
        let folder = RunFolder::claim(&path).unwrap();
        folder.write("config.toml", b"x").unwrap();
        assert_eq!(RunFolder::claim(&path).unwrap_err().message, RUNNING);
        folder.discard();
        assert!(!root.path().join("runs").exists());
        assert!(root.path().exists());
    }
}
