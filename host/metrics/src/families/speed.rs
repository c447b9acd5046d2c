//! Times and rates: the metrics that differ between equal runs.

use super::macros::metrics;
use crate::{
    definition::{FamilyDefinition, MetricDefinition, MetricKind, Unit, ValueRange},
    family::Family,
    report_use::{Column, ColumnFormat, ReportUse},
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Speed",
    text: "Times and rates of the machine. They differ between equal runs, so the sink `csv` writes them to a file of \
           their own.",
    metrics: METRICS,
};

const SPEED: MetricDefinition = MetricDefinition {
    kind: MetricKind::Timing,
    range: ValueRange::AtLeast(0),
    ..MetricDefinition::new(Family::Speed)
};

metrics! {
    /// Training tokens of the step over its time, `train/step_ms`.
    TOKENS_PER_S = {
        name: "train/tokens_per_s",
        unit: Unit::TokensPerSecond,
        report: ReportUse {
            column: Some(Column {
                position: 3,
                key: "tokens_per_s",
                head: "tokens/s",
                format: ColumnFormat::Fixed(0),
            }),
            ..ReportUse::CURVE
        },
        ..SPEED
    };
    /// Time of gradients and update, from drawing the batch on. Shadow passes are counted; evaluations, the passes for
    /// `[curvature]` and `[observe]`, and waiting for a checkpoint are not.
    STEP_MS = { name: "train/step_ms", unit: Unit::Milliseconds, ..SPEED };
    /// Model FLOPs utilization (arXiv:2204.02311, appendix B): the time that the step's matrix products would take at
    /// the rate of one large product, over `train/step_ms`. The rate is measured before the first step of the process,
    /// on the run's device and in its `train.precision`.
    MFU = { name: "train/mfu", unit: Unit::Fraction, ..SPEED };
    /// The same at the rate of the device's data sheet, for GPUs whose data sheet is known.
    MFU_DATA_SHEET = { name: "train/mfu_data_sheet", unit: Unit::Fraction, ..SPEED };
    /// Memory after the step: what the run has taken from a GPU's memory, with what it keeps for later tensors; on the
    /// CPU the resident memory of the process.
    MEMORY_MB = { name: "train/memory_mb", unit: Unit::Megabytes, ..SPEED };
}
