//! Names: the folders of checkpoints and the files in one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use altgrad_run_folder::folder::CONFIG;

/// Folder of checkpoints in the run folder.
pub const CHECKPOINTS: &str = "checkpoints";
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
/// One line per file, as sha256sum writes it.
pub const CHECKSUMS: &str = "checksums";
/// Files of tensors.
pub const TENSORS: [&str; 3] = [MODEL, OPTIMIZER, METER];
/// Every file that has a checksum, in the order they are written.
pub const FILES: [&str; 5] = [MODEL, OPTIMIZER, METER, CONFIG, STATE];

/// Prefix of a checkpoint that is being written.
pub(super) const UNFINISHED: &str = ".unfinished-";
/// Prefix of a checkpoint that is being removed.
pub(super) const REMOVED: &str = ".removed-";
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
        CheckpointKind::Step => format!("step-{step:06}"),
        CheckpointKind::Anomaly => format!("anomaly-step-{step:06}"),
    }
}

/// The checkpoints of a kind in a folder, by ascending step, without validation.
#[must_use]
pub fn list(folder: &Path, kind: CheckpointKind) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let file_name = entry.file_name();
            let file_name = file_name.to_str()?;
            let prefix = if kind == CheckpointKind::Anomaly { "anomaly-step-" } else { "step-" };
            let step = file_name.strip_prefix(prefix)?.parse().ok()?;
            (file_name == name(kind, step)).then(|| (step, entry.path()))
        })
        .collect();
    found.sort();
    found
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
        let steps = |kind| list(folder.path(), kind).into_iter().map(|(step, _)| step).collect::<Vec<_>>();
        assert_eq!(steps(CheckpointKind::Step), [20, 100, 1_000_000]);
        assert_eq!(steps(CheckpointKind::Anomaly), [7]);
        assert!(list(&folder.path().join("missing"), CheckpointKind::Step).is_empty());
    }
}
