//! Files of a run folder that exist only while a process runs: reserved disk space, and temporary files.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use altgrad_base::files;

/// Disk space for the last `run.json`.
const RESERVE: &str = ".altgrad-reserve";
/// The prefix of its name and of those of temporary files.
const PREFIX: &str = ".altgrad-";
/// The smallest reserve, bytes.
const LEAST: u64 = 1 << 18;
/// The reserve as a multiple of the status file's present length.
const TIMES: u64 = 4;

/// Reserves disk space for a status file of `known` bytes at present.
pub(crate) fn reserve(folder: &Path, known: u64) -> io::Result<()> {
    let bytes = LEAST.max(TIMES * known);
    let path = folder.join(RESERVE);
    let file = File::options().create(true).truncate(true).write(true).open(&path)?;
    let made = allocate(&file, bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        let _ = fs::remove_file(&path);
    });
    match made {
        // The limit of file lengths is lower; the free space is unknown.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(()),
        made => made,
    }
}

/// Allocates that many bytes of disk space for a file.
fn allocate(mut file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{fs::FallocateFlags, io::Errno};
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            done => return done.map_err(Into::into),
        }
    }
    io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut file).map(drop)
}

/// Writes a file into the reserved space. False if there is none.
pub(crate) fn write_into_reserve(folder: &Path, name: &str, contents: &[u8]) -> io::Result<bool> {
    let path = folder.join(RESERVE);
    let mut file = match File::options().write(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let write = || -> io::Result<()> {
        file.write_all(contents)?;
        file.set_len(contents.len() as u64)?;
        file.sync_all()?;
        fs::rename(&path, folder.join(name))
    };
    let mut write = write;
    if let Err(error) = write() {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    files::sync_folder(folder);
    Ok(true)
}

/// Removes files of processes that have ended. Called only while the folder is locked, when no other process writes
/// there.
pub(crate) fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let temporary = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if temporary && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
