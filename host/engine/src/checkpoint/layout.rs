//! Names: the folders of checkpoints and the files in one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use altgrad_run_folder::folder::CONFIG;

/// One line per file, as sha256sum writes it.
pub use crate::checksums::CHECKSUMS;

/// Folder of checkpoints in the run folder.
pub use altgrad_run_folder::folder::CHECKPOINTS;
/// Link to the newest checkpoint.
pub const LAST: &str = "last";
/// Link to the checkpoint with the lowest validation loss.
pub const BEST: &str = "best";
/// Parameters.
pub const MODEL: &str = "model.safetensors";
/// The optimizer's buffers.
pub const OPTIMIZER: &str = "optimizer.safetensors";
/// The state of metrics, by parameter.
pub const METER: &str = "meter.safetensors";
/// All other state.
pub const STATE: &str = "state.toml";
/// Files of tensors.
pub const TENSORS: [&str; 3] = [MODEL, OPTIMIZER, METER];
/// Every file that has a checksum, in the order they are written.
pub const FILES: [&str; 5] = [MODEL, OPTIMIZER, METER, CONFIG, STATE];

/// Prefix of a regular checkpoint.
pub(super) const STEP: &str = "step-";
/// Prefix of an anomaly.
const ANOMALY: &str = "anomaly-step-";
/// Prefix of a checkpoint that is being written.
pub(super) const UNFINISHED: &str = ".unfinished-";
/// Prefix of a checkpoint that is being removed.
pub(super) const REMOVED: &str = ".removed-";
/// Prefix of a checkpoint whose name another one is about to take: complete until that one has it.
pub(super) const REPLACED: &str = ".replaced-";
/// Prefix of checkpoints of an abandoned continuation.
pub(super) const SET_ASIDE: &str = "set-aside-";

/// The reason for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointKind {
    /// A regular checkpoint.
    Step,
    /// An anomaly of the training; stored separately.
    Anomaly,
}

/// Folder name of a checkpoint: `step-000100` after 100 updates.
#[must_use]
pub fn name(kind: CheckpointKind, step: u64) -> String {
    match kind {
        CheckpointKind::Step => format!("{STEP}{step:06}"),
        CheckpointKind::Anomaly => format!("{ANOMALY}{step:06}"),
    }
}

/// The names in a folder of checkpoints; none if there is no folder.
///
/// # Errors
/// The folder cannot be read, or is a link that leads nowhere: its checkpoints are lost, not missing.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map(drop)?,
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

/// The checkpoints of a kind in a folder, by ascending step, without validation; none if there is no folder.
///
/// # Errors
/// The folder cannot be read, or is a link that leads nowhere.
pub fn list(folder: &Path, kind: CheckpointKind) -> io::Result<Vec<(u64, PathBuf)>> {
    let prefix = if kind == CheckpointKind::Anomaly { ANOMALY } else { STEP };
    let checkpoint = |found: String| {
        let step = found.strip_prefix(prefix)?.parse().ok()?;
        (found == name(kind, step)).then(|| (step, folder.join(found)))
    };
    let mut found: Vec<(u64, PathBuf)> = names(folder)?.into_iter().filter_map(checkpoint).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_step_and_others_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "step-000100",
            "step-1000000",
            "step-000020",
            "anomaly-step-000007",
            "step-20",
            "step-x",
            "last",
        ];
        for name in names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let steps =
            |kind| list(folder.path(), kind).unwrap().into_iter().map(|(step, _)| step).collect::<Vec<_>>();
        assert_eq!(steps(CheckpointKind::Step), [20, 100, 1_000_000]);
        assert_eq!(steps(CheckpointKind::Anomaly), [7]);
        let missing = folder.path().join("missing");
        assert!(list(&missing, CheckpointKind::Step).unwrap().is_empty());
        #[cfg(unix)]
        std::os::unix::fs::symlink("nowhere", &missing).unwrap();
        #[cfg(unix)]
        assert!(list(&missing, CheckpointKind::Step).is_err(), "lost, not missing");
    }
}
