//! The file operations that write a checkpoint.
//!
//! All operations pass through one function, where a test can make them fail. A loop over their numbers then tests the
//! failure of every write, flush and rename, without filling a disk.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Makes a folder.
    CreateFolder,
    /// Makes a file.
    Create,
    /// Writes some bytes.
    Write,
    /// Flushes a file to the disk.
    Sync,
    /// Flushes a folder's entries to the disk.
    SyncFolder,
    /// Renames a file, folder or link.
    Rename,
    /// Makes a symbolic link.
    Link,
    /// Removes a folder with all in it.
    Remove,
}

/// A check that may refuse an operation before it begins.
type Gate = dyn Fn(Op, &Path) -> io::Result<()> + Send + Sync;

/// The disk.
#[derive(Clone, Default)]
pub struct Disk {
    gate: Option<Arc<Gate>>,
}

/// Implemented by hand: functions have no `Debug`.
impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("gated", &self.gate.is_some()).finish()
    }
}

impl Disk {
    /// A disk whose operations `gate` may refuse.
    #[must_use]
    pub fn gated(gate: impl Fn(Op, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { gate: Some(Arc::new(gate)) }
    }

    fn pass(&self, op: Op, path: &Path) -> io::Result<()> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate(op, path))
    }

    /// Makes a folder and those above it; an existing one stays.
    ///
    /// # Errors
    /// The operating system's error, here and below.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.pass(Op::CreateFolder, path)?;
        fs::create_dir_all(path)
    }

    /// Makes a new file.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.pass(Op::Create, path)?;
        Ok(DiskFile { disk: self.clone(), path: path.to_path_buf(), file: File::create_new(path)? })
    }

    /// Makes a folder's entries durable, where folders can be opened.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.pass(Op::SyncFolder, path)?;
        File::open(path)?.sync_all()
    }

    /// Renames; a file or link of the new name is replaced.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Op::Rename, from)?;
        fs::rename(from, to)
    }

    /// Makes a symbolic link at `path` to `target`.
    ///
    /// # Errors
    /// The operating system's error, or the system has no symbolic links.
    pub fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.pass(Op::Link, path)?;
        #[cfg(unix)]
        return std::os::unix::fs::symlink(target, path);
        #[cfg(not(unix))]
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("no link to {} here", target.display())))
    }

    /// Removes a folder and its content, or a file or link; a missing path is no error.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        self.pass(Op::Remove, path)?;
        if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct DiskFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

impl DiskFile {
    /// Flushes it to the disk.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.pass(Op::Sync, &self.path)?;
        self.file.sync_all()
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.pass(Op::Write, &self.path)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
