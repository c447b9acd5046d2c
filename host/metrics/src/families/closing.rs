//! The results of a run, which sinks get at its end.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, MetricKind, Unit, ValueRange},
    family::Family,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Closing values",
    text: "Values that sinks get at the end of a run; `run.json` has them under other names.",
    metrics: METRICS,
};

const CLOSING: MetricDefinition = MetricDefinition {
    unit: Unit::NatsPerToken,
    range: ValueRange::AtLeast(0),
    due: Due::End,
    ..MetricDefinition::new(Family::Closing)
};

metrics! {
    /// Training loss of the last step.
    FINAL_TRAIN_LOSS = { name: "final/train_loss", ..CLOSING };
    /// Held-out loss of the final weights.
    FINAL_VAL_LOSS = { name: "final/val_loss", ..CLOSING };
    /// Lowest held-out loss of the run.
    BEST_VAL_LOSS = { name: "best/val_loss", ..CLOSING };
    /// Training tokens of the run over the time of its steps, the sum of `train/step_ms`.
    TOKENS_PER_S = { name: "run/tokens_per_s", unit: Unit::TokensPerSecond, kind: MetricKind::Timing, ..CLOSING };
}
