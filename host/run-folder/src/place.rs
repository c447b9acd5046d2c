//! The place of a folder that a process holds open: others can rename or delete it meanwhile.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// The place of the folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The original place.
    Same,
    /// Somewhere else.
    Renamed(PathBuf),
    /// Nowhere.
    Deleted,
}

/// The place of the folder that was at `path`. An unknown place counts as unchanged.
#[cfg(target_os = "linux")]
pub(crate) fn of(held: &File, path: &Path) -> Place {
    use std::os::{fd::AsRawFd, unix::fs::MetadataExt};

    let Ok(own) = held.metadata() else { return Place::Same };
    let is_it =
        |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()));
    match is_it(path) {
        Ok(true) => return Place::Same,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Place::Same,
        Ok(false) | Err(_) => {}
    }
    // The system gives the present path of an open file; for a deleted one, a path that does not exist.
    match fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())) {
        Ok(now) if is_it(&now).is_ok_and(|it| it) => Place::Renamed(now),
        Ok(_) => Place::Deleted,
        Err(_) => Place::Same,
    }
}

/// Other systems do not give the path.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of(_: &File, _: &Path) -> Place {
    Place::Same
}
