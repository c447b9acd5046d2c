//! Time of checkpoints: blocks of steps with and without them, alternating in one process.
//!
//! A block ends when its last checkpoint is on the disk, so that no part of it falls into the next one.

use std::{path::Path, time::Instant};

use altgrad_alerts::AlertState;
use altgrad_base::{diagnostic::Diagnostic, files::Disk, scratch::Scratch};
use altgrad_config::CheckpointSection;
use altgrad_sinks::StateRequest;
use serde::Serialize;

use super::{
    case::{self, BenchSpec},
    statistics::median,
};
use crate::{
    checkpoint::{CheckpointKind, Checkpointer, RunIdentity, Snapshot, StateTensors, state::RunTotals},
    metrics::update_metrics::UpdateMetrics,
    setup::ReadyRun,
    state::TrainState,
    step,
};

/// Checkpoints in a block.
const IN_A_BLOCK: u64 = 5;

/// The measurements of a case.
#[derive(Debug, Serialize)]
pub struct CheckpointCost {
    /// The case.
    pub case: String,
    /// Steps between two checkpoints.
    pub every: u64,
    /// Counted blocks of each kind.
    pub blocks: usize,
    /// Bytes of one checkpoint.
    pub bytes: u64,
    /// Median milliseconds per step without checkpoints.
    pub without_ms: f64,
    /// Median milliseconds a step with them.
    pub with_ms: f64,
    /// Ratio of the two medians, with to without.
    pub ratio: f64,
}

/// Times each case with a checkpoint every `every` steps and without checkpoints.
///
/// # Errors
/// A case cannot run, or a checkpoint cannot be written.
pub fn measure(spec: &BenchSpec, every: u64) -> Result<Vec<CheckpointCost>, Diagnostic> {
    let folder = case::tokens_folder(spec)?;
    let cost = |case: &String| cost(case::build(folder.path(), spec, case)?, case, every, spec.steps);
    spec.cases.iter().map(cost).collect()
}

/// Times `steps` steps with a checkpoint every `every` steps, and as many without.
fn cost(run: ReadyRun, case: &str, every: u64, steps: u64) -> Result<CheckpointCost, Diagnostic> {
    let ReadyRun { setup, mut state, mut update_metrics, .. } = run;
    let folder = Scratch::new(Some(Path::new(".")))
        .map_err(|error| Diagnostic::run(format!("cannot make a folder for checkpoints ({error})")))?;
    let section = CheckpointSection { every, ..CheckpointSection::default() };
    let mut checkpointer =
        Checkpointer::new(folder.path(), section, RunIdentity::of(&setup)?, Disk::default(), None);
    let block = IN_A_BLOCK * every;
    let blocks = steps.div_ceil(block);
    let mut number = 0;
    let mut times = [Vec::new(), Vec::new()];
    // The first pair of blocks warms up.
    for index in 0..2 * (blocks + 1) {
        let with = index % 2 == 1;
        let started = Instant::now();
        for _ in 0..block {
            state.quant.state.step = number;
            let (grads, outputs) = step::compute_gradients(&setup, &mut state, number, None)?;
            if with {
                checkpointer.bound_loss(number + 1);
            }
            step::apply_update(&setup, (&mut state, &mut update_metrics), number, grads, &outputs)?;
            number += 1;
            if with && checkpointer.is_due(number) {
                checkpointer.save(snapshot((&state, &update_metrics), number)?, StateRequest::default());
            }
        }
        checkpointer.wait();
        if let Some(fault) = checkpointer.fault() {
            return Err(fault.clone());
        }
        if !with {
            // The periods of this block are over without checkpoints.
            checkpointer.skip(number);
        }
        if index > 1 {
            times[usize::from(with)].push(started.elapsed().as_secs_f64() * 1e3 / block as f64);
        }
    }
    let [without_ms, with_ms] = times.map(|times| median(&times));
    let bytes = checkpointer.last().map_or(0, |(_, path)| size(path));
    Ok(CheckpointCost {
        case: case.to_string(),
        every,
        blocks: blocks as usize,
        bytes,
        without_ms,
        with_ms,
        ratio: with_ms / without_ms,
    })
}

fn snapshot(
    (state, update_metrics): (&TrainState, &UpdateMetrics),
    step: u64,
) -> Result<Snapshot, Diagnostic> {
    Ok(Snapshot {
        kind: CheckpointKind::Step,
        step,
        val_loss: None,
        tensors: StateTensors::of(state, update_metrics)?,
        carried: state.quant.save()?,
        alerts: AlertState::default(),
        totals: RunTotals::default(),
        resumes: Vec::new(),
    })
}

/// Bytes of a folder's files.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}
