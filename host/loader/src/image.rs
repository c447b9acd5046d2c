//! The file that the dynamic loader maps: an immutable copy of the hashed and checked bytes.
//!
//! A mapped file is not read once: shortening it ends the process with SIGBUS, and writing to it changes running code;
//! `cp` over a library in use does both. The loader therefore gets a sealed memory file or, where the system forbids
//! those, a private copy that is deleted once it is mapped. A library that searches its own folder for others
//! (`$ORIGIN`), or cannot be copied, is opened in place.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsRawFd, IntoRawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tempfile::TempDir;

use crate::{
    elf,
    ffi::{self, LibraryEntry},
    info::CheckedFile,
};

/// The paths under which libraries were opened, by identity. The dynamic loader identifies a library by the spelling of
/// that path, so the same bytes are one library however often they are opened.
static OPENED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Longest name of a memory file, in bytes.
const LONGEST_NAME: usize = 249;

/// The reason why a library was not opened.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The library has no entry symbol.
    NoEntry,
    /// The dynamic loader's message, with the library's own path.
    Loader(String),
}

/// Opens a library that passed the static checks, permanently.
pub(crate) fn open(library: &CheckedFile) -> Result<LibraryEntry, Fault> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = opened.get(&library.identity) {
        return load(path, library);
    }
    let (path, entry) = if elf::looks_beside_itself(&library.bytes) {
        load_in_place(library, "looks for other libraries beside itself")?
    } else {
        load_sealed(library).or_else(|fault| match fault {
            Fault::NoEntry => Err(fault),
            Fault::Loader(why) => {
                tracing::debug!("{}: sealed memory cannot be loaded: {why}", library.path.display());
                load_private(library)
            }
        })?
    };
    opened.insert(library.identity.clone(), path);
    Ok(entry)
}

/// Opens a sealed copy, and returns its path.
fn load_sealed(library: &CheckedFile) -> Result<(PathBuf, LibraryEntry), Fault> {
    let sealed = seal(&library.path, &library.bytes);
    let file = sealed.map_err(|error| Fault::Loader(format!("no memory file can be made ({error})")))?;
    let path = unique_path(&file);
    let entry = load(&path, library);
    if !matches!(entry, Err(Fault::Loader(_))) {
        // Stays open as long as the library is loaded, so that backtraces find its symbols under its path.
        let _ = file.into_raw_fd();
    }
    Ok((path, entry?))
}

/// Opens a private copy, deleted once it is mapped, and returns its path.
fn load_private(library: &CheckedFile) -> Result<(PathBuf, LibraryEntry), Fault> {
    let (_folder, path) = match copy(library) {
        Ok(copied) => copied,
        Err(error) => return load_in_place(library, &format!("cannot be copied ({error})")),
    };
    let entry = load(&path, library)?;
    Ok((path, entry))
}

/// Opens the library's own file, which others can change, and returns its path.
fn load_in_place(library: &CheckedFile, why: &str) -> Result<(PathBuf, LibraryEntry), Fault> {
    let path = &library.path;
    tracing::warn!(
        "{} {why}, so it is loaded where it lies: do not overwrite it during the run",
        path.display()
    );
    Ok((path.clone(), load(path, library)?))
}

fn load(path: &Path, library: &CheckedFile) -> Result<LibraryEntry, Fault> {
    use libloading::Error;
    ffi::open_library(path).map_err(|error| match &error {
        Error::DlSym { .. } | Error::DlSymUnknown => Fault::NoEntry,
        // The loader's message is the error's source.
        _ => {
            let said =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let own = library.path.display().to_string();
            Fault::Loader(said.replace('\n', " ").replace(&*path.to_string_lossy(), &own))
        }
    })
}

/// A memory file with these bytes, which can be neither written nor resized. `/proc/self/maps` shows the library's own
/// path.
fn seal(library: &Path, bytes: &[u8]) -> io::Result<File> {
    let own = Some(library.as_os_str()).filter(|name| name.len() <= LONGEST_NAME);
    let name = own.or(library.file_name()).map_or(&b"plugin"[..], OsStr::as_bytes);
    let name = &name[..name.len().min(LONGEST_NAME)];
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 has no flag for executable memory files: all of them are executable.
    let made = memfd_create(name, flags | MemfdFlags::EXEC).or_else(|error| match error {
        rustix::io::Errno::INVAL => memfd_create(name, flags),
        other => Err(other),
    });
    let mut file = File::from(made?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file)
}

/// The path of an open file, spelled as no earlier path of this process. The program may close a descriptor of this
/// crate; the next file has its number then, and the dynamic loader would take an equal path for the library that was
/// loaded first.
fn unique_path(file: &File) -> PathBuf {
    static EARLIER: AtomicUsize = AtomicUsize::new(0);
    let earlier = EARLIER.fetch_add(1, Ordering::Relaxed);
    // The binary digits of the number of earlier paths, in components that change nothing.
    let spelling = format!("{earlier:b}").replace('1', "./").replace('0', "/");
    PathBuf::from(format!("/proc/self/fd/{spelling}{}", file.as_raw_fd()))
}

/// A copy in a folder that only this user can enter; it is deleted with the folder, its mapping stays.
fn copy(library: &CheckedFile) -> io::Result<(TempDir, PathBuf)> {
    // The hash: no folder of other bytes ever has the same path.
    let folder = tempfile::Builder::new().prefix(&format!("altgrad-{}-", library.sha256)).tempdir()?;
    let path = folder.path().join(library.path.file_name().unwrap_or(OsStr::new("plugin.so")));
    fs::write(&path, &library.bytes)?;
    Ok((folder, path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use altgrad_end_to_end::skipped;

    use super::*;

    #[test]
    fn a_sealed_file_holds_the_bytes_and_takes_no_others() {
        let Ok(sealed) = seal(Path::new("/x/plugin.so"), b"bytes") else {
            return skipped("a_sealed_file_holds_the_bytes_and_takes_no_others", "no memory files here");
        };
        let path = unique_path(&sealed);
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert!((&sealed).write(b"other").is_err(), "written");
        assert!(sealed.set_len(0).is_err() && sealed.set_len(99).is_err(), "resized");
        assert!(fs::write(&path, b"other").is_err(), "truncated");
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        let named = fs::read_link(&path).unwrap();
        assert!(named.to_string_lossy().contains("/x/plugin.so"), "{}", named.display());
    }

    #[test]
    fn a_number_that_is_used_again_has_another_path() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        // Paths are equal without their `.` components; the dynamic loader compares bytes.
        let paths: Vec<PathBuf> = (0..5000).map(|_| unique_path(&file)).collect();
        assert_eq!(paths.iter().map(|path| path.as_os_str()).collect::<BTreeSet<_>>().len(), 5000);
        let targets: BTreeSet<PathBuf> = paths.iter().map(|path| fs::read_link(path).unwrap()).collect();
        assert_eq!(targets.len(), 1);
    }

    #[test]
    fn a_library_of_any_name_can_be_sealed() {
        if seal(Path::new("/x/plugin.so"), b"").is_err() {
            return skipped("a_library_of_any_name_can_be_sealed", "no memory files here");
        }
        for name in [format!("/{}", "x".repeat(255)), format!("{}/c.so", "/b".repeat(300)), "..".into()] {
            assert!(seal(Path::new(&name), b"").is_ok(), "{name}");
        }
    }
}
