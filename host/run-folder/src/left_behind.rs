//! Files of a run folder that are there only while a process runs: room set aside on the disk, and temporary files.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use altgrad_base::files;

/// Room on the disk for the last `run.json`.
const RESERVE: &str = ".altgrad-reserve";
/// The prefix of its name and of those of temporary files.
const PREFIX: &str = ".altgrad-";
/// Bytes that are set aside at least.
const LEAST: u64 = 1 << 18;
/// The reserve in multiples of the present status's length.
const TIMES: u64 = 4;

/// Sets room aside for a status that is `known` bytes long by now.
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

/// Gives a file that many bytes on the disk.
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

/// Writes a file into the room that was set aside. False if there is none.
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
