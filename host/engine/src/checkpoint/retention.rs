//! Retention of checkpoints: the newest, the best and anomalies are kept, and links point to them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use altgrad_base::files::Disk;

use super::layout::{self, BEST, CheckpointKind, LAST, REMOVED, REPLACED, SET_ASIDE, UNFINISHED};

/// Points a link of the folder at a checkpoint beside it, atomically: readers find the old or the new target.
///
/// # Errors
/// The operating system's error.
pub(super) fn point(disk: &Disk, folder: &Path, link: &str, to: &Path) -> io::Result<()> {
    let Some(name) = to.file_name() else { return Err(io::Error::other("a checkpoint without a name")) };
    let fresh = folder.join(format!("{UNFINISHED}{link}"));
    disk.remove(&fresh)?;
    disk.link(Path::new(name), &fresh)?;
    disk.rename(&fresh, &folder.join(link))
}

/// The checkpoint to which a link points, if there is one.
pub(super) fn target(folder: &Path, link: &str) -> Option<PathBuf> {
    Some(folder.join(fs::read_link(folder.join(link)).ok()?))
}

/// Removes all but the newest `keep_last` and the best one of the run's course. Anomalies stay.
///
/// # Errors
/// A checkpoint could not be removed; the others are removed.
pub(super) fn rotate(disk: &Disk, folder: &Path, keep_last: usize) -> io::Result<()> {
    let mut old = layout::list(folder, CheckpointKind::Step)?;
    old.truncate(old.len().saturating_sub(keep_last));
    let best = target(folder, BEST);
    let removed =
        old.iter().filter(|(_, path)| Some(path) != best.as_ref()).map(|(_, path)| remove(disk, path));
    removed.fold(Ok(()), io::Result::and)
}

/// Renamed first, because a partly removed checkpoint must not look valid.
fn remove(disk: &Disk, path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let removed = path.with_file_name(format!("{REMOVED}{name}"));
    disk.remove(&removed)?;
    disk.rename(path, &removed)?;
    disk.remove(&removed)
}

/// Gives checkpoints their names back that a crash left without a successor under the name of replaced ones.
///
/// # Errors
/// The operating system's error.
pub(super) fn restore(disk: &Disk, folder: &Path) -> io::Result<()> {
    for name in layout::names(folder)? {
        let Some(path) = name.strip_prefix(REPLACED).map(|name| folder.join(name)) else { continue };
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            disk.rename(&folder.join(name), &path)?;
        }
    }
    Ok(())
}

/// Truncates the history after `step`, from which a run resumes: later checkpoints are renamed to a name that readers
/// ignore, links point to the remaining ones, and incomplete files of a crash are removed. `best` is the one to point
/// at, if there is one.
///
/// # Errors
/// The operating system's error.
pub(super) fn rewind(disk: &Disk, folder: &Path, step: u64, best: Option<&Path>) -> io::Result<()> {
    let listed = layout::list(folder, CheckpointKind::Step)?;
    for (_, path) in listed.into_iter().filter(|(later, _)| *later > step) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("{SET_ASIDE}{name}"));
        disk.remove(&aside)?;
        disk.rename(&path, &aside)?;
    }
    match layout::list(folder, CheckpointKind::Step)?.last() {
        Some((_, newest)) => point(disk, folder, LAST, newest)?,
        None => disk.remove(&folder.join(LAST))?,
    }
    match best {
        Some(best) => point(disk, folder, BEST, best)?,
        None => disk.remove(&folder.join(BEST))?,
    }
    for name in layout::names(folder)? {
        if [UNFINISHED, REMOVED, REPLACED].iter().any(|prefix| name.starts_with(prefix)) {
            disk.remove(&folder.join(name))?;
        }
    }
    Ok(())
}
