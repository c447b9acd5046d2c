//! What checkpoints cost: blocks of steps with them and without, in turn, in one process.
//!
//! A block ends when its last checkpoint is on the disk, so that nothing of it falls into the next one.

use std::time::Instant;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::{
    alerts::AlertState,
    checkpoint::{Identity, Keeper, Kind, Snapshot, Tensors, state::Totals},
    config::CheckpointSection,
    diagnostic::Diagnostic,
    files::Disk,
    metrics::MetricRecord,
    plan::Plan,
    sinks::StateRequest,
    train::step,
};

/// Checkpoints in a block.
const IN_A_BLOCK: u64 = 5;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    case: String,
    every: u64,
    blocks: usize,
    /// Bytes of one checkpoint.
    bytes: u64,
    /// Median milliseconds a step, without and with checkpoints.
    without_ms: f64,
    with_ms: f64,
    /// With to without: medians.
    ratio: f64,
    /// Checkpoints that fell due while one was being written, and were taken later.
    late: u64,
}

/// Times a plan for `steps` steps each way, a checkpoint every `every` steps.
pub(super) fn cost(mut plan: Plan, case: &str, every: u64, steps: u64) -> Result<Cost, Diagnostic> {
    let folder = tempfile::tempdir_in(".")
        .map_err(|error| Diagnostic::run(format!("cannot make a folder for checkpoints ({error})")))?;
    let section = CheckpointSection { every, ..CheckpointSection::default() };
    let mut keeper = Keeper::new(folder.path(), section, Identity::of(&plan)?, Disk::default(), None);
    let block = IN_A_BLOCK * every;
    let blocks = steps.div_ceil(block);
    let (mut number, mut taken) = (0, 0);
    let mut times = [Vec::new(), Vec::new()];
    // The first pair of blocks warms up.
    for index in 0..2 * (blocks + 1) {
        let with = index % 2 == 1;
        let started = Instant::now();
        for _ in 0..block {
            plan.trainer.quant.begin_step(number);
            step::step(&mut plan, number, &mut MetricRecord::new(number), &mut None, None)?;
            number += 1;
            if with && keeper.is_due(number) {
                keeper.save(snapshot(&plan, number)?, StateRequest::default());
                taken += 1;
            }
        }
        keeper.wait();
        if let Some(fault) = keeper.fault() {
            return Err(fault.clone());
        }
        if !with {
            // The periods of this block are over without checkpoints.
            keeper.skip(number);
        }
        if index > 1 {
            times[usize::from(with)].push(started.elapsed().as_secs_f64() * 1e3 / block as f64);
        }
    }
    let [without_ms, with_ms] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let bytes = keeper.last().map_or(0, |(_, path)| size(path));
    let (ratio, late) = (with_ms / without_ms, IN_A_BLOCK * (blocks + 1) - taken);
    Ok(Cost {
        case: case.to_string(),
        every,
        blocks: blocks as usize,
        bytes,
        without_ms,
        with_ms,
        ratio,
        late,
    })
}

fn snapshot(plan: &Plan, step: u64) -> Result<Snapshot, Diagnostic> {
    Ok(Snapshot {
        kind: Kind::Step,
        step,
        val_loss: None,
        tensors: Tensors::of(plan)?,
        carried: plan.trainer.quant.state(),
        alerts: AlertState::default(),
        totals: Totals::default(),
        resumes: Vec::new(),
    })
}

/// Bytes of a folder's files.
fn size(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// The costs for people.
pub(super) fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["case", "checkpoint every", "MB each", "ms without", "ms with", "ratio", "late"]);
    for cost in costs {
        table.add_row([
            cost.case.clone(),
            format!("{} steps", cost.every),
            format!("{:.1}", cost.bytes as f64 / 1e6),
            format!("{:.2}", cost.without_ms),
            format!("{:.2}", cost.with_ms),
            format!("{:.3}", cost.ratio),
            cost.late.to_string(),
        ]);
    }
    table
}
