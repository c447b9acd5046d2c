//! Reading of whole files, atomic writing, and the [`Disk`], whose operations tests can make fail.

mod disk;

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::Path,
};

pub use disk::{Disk, DiskFile, Op};

/// Reads a regular file. Anything else (a pipe, a device, a folder) could block for ever and is refused.
///
/// # Errors
/// The operating system's error, or the path is no regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    fs::read(path)
}

/// Reads a regular file that may be missing.
///
/// # Errors
/// The operating system's error, or the path is no regular file.
pub fn read_if_exists(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        contents => contents.map(Some),
    }
}

/// Writes a file under a temporary name in its folder, flushes it to the disk, and renames it: no half-written
/// file ever bears the name.
///
/// # Errors
/// The operating system's error; no file is left then.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The usual mode, less the umask; temporary files are private by default.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.prefix(".altgrad-").tempfile_in(folder)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder);
    Ok(())
}

/// Writes a file that the user names: as [`write()`] where it is a regular file or missing. A symbolic link stays and
/// its target is written; devices and pipes are written through.
///
/// # Errors
/// The operating system's error.
pub fn write_output(path: &Path, contents: &[u8]) -> io::Result<()> {
    match fs::canonicalize(path) {
        Ok(target) if fs::metadata(&target)?.is_file() => write(&target, contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => write(path, contents),
        // The target of a link that leads nowhere is made.
        _ => fs::write(path, contents),
    }
}

/// Makes renames in a folder durable, where folders can be opened.
pub fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Opens the file, made if missing, and locks it until it is closed. Waits while another process holds the lock. The
/// system releases the lock however this process ends. Where the file system has no locks, nothing is held.
///
/// # Errors
/// The file cannot be opened.
pub fn hold(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    while file.lock().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    Ok(file)
}

/// As [`hold`], without waiting: `None` while another process holds the lock.
///
/// # Errors
/// The file cannot be opened.
pub fn try_hold(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(path)?;
    let is_held = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    Ok((!is_held).then_some(file))
}

/// Bytes as lower-case hex digits, as hashes are written.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn links_devices_and_pipes_stay() -> io::Result<()> {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = tempfile::tempdir()?;
        let [link, target, dangling] = ["link", "target", "dangling"].map(|name| folder.path().join(name));
        fs::write(&target, "before")?;
        symlink("target", &link)?;
        symlink("made", &dangling)?;
        for path in [&link, &dangling] {
            write_output(path, b"after")?;
            assert!(path.is_symlink());
            assert_eq!(fs::read(path)?, b"after");
        }
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status()?.success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo)
        });
        write_output(&fifo, b"through")?;
        assert_eq!(reader.join().map_err(|_| io::Error::other("the reader failed"))??, b"through");
        assert!(fs::metadata(&fifo)?.file_type().is_fifo());
        let device = folder.path().join("null");
        symlink("/dev/null", &device)?;
        write_output(&device, b"nowhere")?;
        assert!(device.is_symlink() && fs::metadata(&device)?.file_type().is_char_device());
        assert!(write_output(folder.path(), b"a folder").is_err());
        Ok(())
    }

    #[test]
    fn what_is_written_is_read_and_a_folder_is_no_file() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("x");
        write(&path, b"one")?;
        write(&path, b"two")?;
        assert_eq!(read(&path)?, b"two");
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        assert!(read(folder.path()).is_err());
        assert_eq!(read_if_exists(&path)?.as_deref(), Some(&b"two"[..]));
        assert_eq!(read_if_exists(&folder.path().join("missing"))?, None);
        assert_eq!(read_if_exists(&path.join("below a file"))?, None);
        assert!(read_if_exists(folder.path()).is_err());
        #[cfg(unix)]
        assert!(read(Path::new("/dev/zero")).is_err());
        Ok(())
    }
}
