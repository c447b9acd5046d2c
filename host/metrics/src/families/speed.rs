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
}
