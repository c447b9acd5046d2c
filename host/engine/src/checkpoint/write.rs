//! Writing a checkpoint: into a folder of a temporary name, every file flushed, then renamed. A folder with the final
//! name is therefore complete.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use altgrad_base::{
    diagnostic::Diagnostic,
    files::{Disk, DiskFile, hex},
};
use altgrad_run_folder::folder::CONFIG;
use altgrad_sinks::{SinkState, StateRequest};
use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

use super::{
    identity::RunIdentity,
    layout::{self, CHECKSUMS, METER, MODEL, OPTIMIZER, REPLACED, STATE, UNFINISHED},
    sanity,
    snapshot::Snapshot,
    state::{self, CheckpointState, Cursors},
};
use crate::tensor_file;

/// A checkpoint that is complete under its name.
#[derive(Debug, Clone)]
pub(super) struct Complete {
    pub path: PathBuf,
    /// Sinks without a state, and the reasons.
    pub missing: Vec<String>,
}

/// Writes a snapshot into the folder of checkpoints. Waits for the sinks' states last: when the checkpoint appears,
/// they have taken every row before it.
///
/// # Errors
/// An operation failed; written files are removed, as far as possible.
pub(super) fn write(
    disk: &Disk,
    folder: &Path,
    snapshot: Snapshot,
    identity: &RunIdentity,
    sinks: StateRequest,
) -> Result<Complete, Diagnostic> {
    let name = layout::name(snapshot.kind, snapshot.step);
    let (unfinished, path) = (folder.join(format!("{UNFINISHED}{name}")), folder.join(&name));
    let written = fill(disk, &unfinished, snapshot, identity, sinks)
        .and_then(|missing| appear(disk, folder, &unfinished, &name).map(|()| missing));
    match written {
        Ok(missing) => Ok(Complete { path, missing }),
        Err(error) => {
            // If that fails too, the next start removes it.
            let _ = disk.remove(&unfinished);
            Err(Diagnostic::run(format!("the checkpoint {name} cannot be written ({error})"))
                .at(path.display())
                .hint("is the disk full, or the folder deleted or read-only? training continues; the next one is tried when it is due"))
        }
    }
}

/// Writes the files; returns the sinks' missing states.
fn fill(
    disk: &Disk,
    folder: &Path,
    snapshot: Snapshot,
    identity: &RunIdentity,
    sinks: StateRequest,
) -> io::Result<Vec<String>> {
    let run_folder = folder.ancestors().nth(2);
    if run_folder.is_some_and(|run_folder| !run_folder.is_dir()) {
        // The folder was renamed or deleted, and must not be made again.
        return Err(io::Error::new(io::ErrorKind::NotFound, "the run folder is gone"));
    }
    let is_first = folder.parent().is_some_and(|checkpoints| !checkpoints.is_dir());
    disk.remove(folder)?;
    disk.create_folder(folder)?;
    if is_first && let Some(run_folder) = run_folder {
        disk.sync_folder(run_folder)?;
    }
    let other = |error: Diagnostic| io::Error::other(error.message);
    let Snapshot { kind, step, val_loss, tensors, carried, alerts, totals, resumes } = snapshot;
    let mut files = Files { disk, folder, sums: String::new(), bytes: BTreeMap::new() };
    files.write(MODEL, |out| tensor_file::write(tensors.model, None, out))?;
    files.write(OPTIMIZER, |out| tensor_file::write(tensors.optimizer, None, out))?;
    files.write(METER, |out| tensor_file::write(tensors.meter, None, out))?;
    files.write(CONFIG, |out| out.write_all(identity.config_toml.as_bytes()))?;
    let sinks = sinks.wait();
    let missing =
        sinks.iter().filter_map(|sink| Some(format!("{}: {}", sink.counts.name, sink.state.as_ref().err()?)));
    let missing = missing.collect();
    let state = CheckpointState {
        format: state::FORMAT.into(),
        version: state::VERSION,
        step,
        kind,
        val_loss,
        host_version: identity.host_version.clone(),
        device: identity.device.clone(),
        threads: identity.threads,
        bytes: std::mem::take(&mut files.bytes),
        cursors: Cursors { seed: identity.seed, step, micro_batch: step * identity.grad_accum },
        data: identity.data.clone(),
        totals,
        optimizer: state::OptimizerRecord { name: identity.optimizer.clone(), updates: tensors.updates },
        loss_scale: tensors.loss_scale,
        schedule: tensors.schedule,
        meter: state::UpdateMetricsRecord {
            dead_steps: tensors.dead_steps,
            initial_seed: tensors.initial_seed,
        },
        quant: carried,
        alerts,
        plugin: identity.plugins.clone(),
        sink: sinks.into_iter().map(saved).collect(),
        resume: resumes,
    };
    // A state that could not be read back must not look like a checkpoint.
    sanity::check(&state).map_err(|what| io::Error::other(format!("its state {what}")))?;
    let state = state.to_toml().map_err(other)?;
    files.write(STATE, |out| out.write_all(state.as_bytes()))?;
    let sums = std::mem::take(&mut files.sums);
    files.write(CHECKSUMS, |out| out.write_all(sums.as_bytes()))?;
    disk.sync_folder(folder)?;
    Ok(missing)
}

fn saved(sink: SinkState) -> state::SinkRecord {
    let (state, missing) = match sink.state {
        Ok(state) => (Some(BASE64_STANDARD.encode(state)), None),
        Err(why) => (None, Some(why)),
    };
    state::SinkRecord { counts: sink.counts, state, missing }
}

/// Gives a complete folder its name. A folder with this name is replaced: it is damaged, or of the same step before an
/// evaluation that found its parameters to be the best. If that fails, it keeps its name; after a crash,
/// [`super::retention::restore`] gives it back.
fn appear(disk: &Disk, folder: &Path, unfinished: &Path, name: &str) -> io::Result<()> {
    let path = folder.join(name);
    let replaced = folder.join(format!("{REPLACED}{name}"));
    let is_replaced = path.symlink_metadata().is_ok();
    if is_replaced {
        disk.remove(&replaced)?;
        disk.rename(&path, &replaced)?;
    }
    disk.rename(unfinished, &path).inspect_err(|_| {
        if is_replaced {
            let _ = disk.rename(&replaced, &path);
        }
    })?;
    disk.sync_folder(folder)?;
    disk.remove(&replaced)
}

/// The files of one checkpoint, and their checksums so far.
struct Files<'a> {
    disk: &'a Disk,
    folder: &'a Path,
    sums: String,
    bytes: BTreeMap<String, u64>,
}

impl Files<'_> {
    /// Writes and flushes a file, and records its checksum.
    fn write(&mut self, name: &str, contents: impl FnOnce(&mut Hashed) -> io::Result<()>) -> io::Result<()> {
        let mut file =
            Hashed { file: self.disk.create(&self.folder.join(name))?, sum: Sha256::new(), bytes: 0 };
        contents(&mut file)?;
        file.file.sync()?;
        self.bytes.insert(name.to_string(), file.bytes);
        self.sums.push_str(&format!("{}  {name}\n", hex(&file.sum.finalize())));
        Ok(())
    }
}

/// A file whose checksum is computed while it is written.
struct Hashed {
    file: DiskFile,
    sum: Sha256,
    bytes: u64,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
