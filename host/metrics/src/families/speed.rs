//! Times and rates: the metrics that differ between equal runs.

use super::macros::metrics;
use crate::{
    definition::{FamilyDefinition, MetricDefinition, MetricKind, Range, Unit},
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
    range: Range::AtLeast(0),
    ..MetricDefinition::new(Family::Speed)
};

metrics! {
    /// Training tokens per second, evaluation not counted.
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
    /// Time from drawing the batch to the end of the update.
    STEP_MS = { name: "train/step_ms", unit: Unit::Milliseconds, ..SPEED };
}
