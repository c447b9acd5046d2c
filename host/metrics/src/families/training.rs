//! Loss, gradient norm and learning rate.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Unit, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Training",
    text: "Loss and gradient norm of each step, and the evaluations.",
    metrics: METRICS,
};

const TRAINING: MetricDefinition = MetricDefinition::new(Family::Training);

metrics! {
    /// Mean cross-entropy of the step's batch before its update.
    LOSS = {
        name: "train/loss",
        unit: Unit::NatsPerToken,
        range: ValueRange::AtLeast(0),
        report: ReportUse::CURVE,
        ..TRAINING
    };
    /// `exp` of the loss.
    PERPLEXITY = { name: "train/perplexity", range: ValueRange::AtLeast(1), ..TRAINING };
    /// Mean cross-entropy of the held-out batches before the step's update; in the last row, after the last update, the
    /// final evaluation.
    VAL_LOSS = {
        name: "val/loss",
        unit: Unit::NatsPerToken,
        range: ValueRange::AtLeast(0),
        due: Due::Evaluations,
        report: ReportUse::CURVE,
        ..TRAINING
    };
    /// `exp` of the held-out loss.
    VAL_PERPLEXITY = { name: "val/perplexity", range: ValueRange::AtLeast(1), due: Due::Evaluations, ..TRAINING };
    /// L2 norm of all gradients before clipping.
    GRAD_NORM = { name: "train/grad_norm", range: ValueRange::AtLeast(0), report: ReportUse::CURVE, ..TRAINING };
    /// L2 norm of all gradients after clipping.
    GRAD_NORM_CLIPPED = { name: "train/grad_norm_clipped", range: ValueRange::AtLeast(0), ..TRAINING };
    /// Learning rate of the step.
    LR = { name: "train/lr", range: ValueRange::AtLeast(0), ..TRAINING };
    /// Factor by which the step's loss is multiplied before its backward pass.
    LOSS_SCALE = { name: "train/loss_scale", range: ValueRange::AtLeast(0), due: Due::LossScaling, ..TRAINING };
    /// Steps so far, including this one, whose updates were skipped because gradients overflowed under the loss scale.
    SKIPPED_STEPS = { name: "train/skipped_steps", range: ValueRange::AtLeast(0), due: Due::LossScaling, ..TRAINING };
}
