//! Loss, gradient norm, learning rate and loss scale.

use altgrad_metrics::{
    MetricId, MetricRecord,
    families::training::{
        FAMILY, GRAD_NORM, GRAD_NORM_CLIPPED, LOSS, LOSS_SCALE, LR, PERPLEXITY, SKIPPED_STEPS, VAL_LOSS,
        VAL_PERPLEXITY,
    },
};

use super::family::{MetricFamily, MetricSetup};

/// The family; [`record_evaluation`] records its held-out losses.
pub struct TrainingFamily;

/// Numbers of a step.
#[derive(Debug, Clone, Copy)]
pub struct TrainingScalars {
    /// Loss of its batch before the update, nats per token.
    pub loss: f64,
    /// L2 norm of all gradients, before and after clipping; unknown if they overflowed under a loss scale.
    pub grad_norm: Option<[f64; 2]>,
    /// Learning rate.
    pub lr: f64,
    /// The dynamic loss scale of its backward pass, and steps skipped up to and with this one.
    pub loss_scale: Option<(f32, u64)>,
}

impl MetricFamily for TrainingFamily {
    type Inputs<'a> = TrainingScalars;

    fn ids(_: &MetricSetup<'_>) -> Vec<MetricId> {
        FAMILY.metrics.iter().map(|definition| MetricId::from(*definition)).collect()
    }

    fn record(_: &MetricSetup<'_>, step: TrainingScalars, record: &mut MetricRecord) {
        record.push(&LOSS, step.loss);
        record.push(&PERPLEXITY, step.loss.exp());
        if let Some([before, after]) = step.grad_norm {
            record.push(&GRAD_NORM, before);
            record.push(&GRAD_NORM_CLIPPED, after);
        }
        record.push(&LR, step.lr);
        if let Some((scale, skipped)) = step.loss_scale {
            record.push(&LOSS_SCALE, f64::from(scale));
            record.push(&SKIPPED_STEPS, skipped as f64);
        }
    }
}

/// Records an evaluation.
pub fn record_evaluation(record: &mut MetricRecord, loss: f64) {
    record.push(&VAL_LOSS, loss);
    record.push(&VAL_PERPLEXITY, loss.exp());
}
