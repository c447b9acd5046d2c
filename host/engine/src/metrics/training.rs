//! Loss, gradient norm and learning rate.

use altgrad_metrics::{
    MetricId, MetricRecord,
    families::training::{
        FAMILY, GRAD_NORM, GRAD_NORM_CLIPPED, LOSS, LR, PERPLEXITY, VAL_LOSS, VAL_PERPLEXITY,
    },
};

use super::family::{MetricFamily, MetricSetup};

/// The family; [`record_evaluation`] records its held-out losses.
pub struct TrainingFamily;

/// Numbers of a step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Loss of its batch before the update, nats per token.
    pub loss: f64,
    /// L2 norm of all gradients, before and after clipping.
    pub grad_norm: [f64; 2],
    /// Learning rate.
    pub lr: f64,
}

impl MetricFamily for TrainingFamily {
    type Inputs<'a> = Step;

    fn ids(_: &MetricSetup<'_>) -> Vec<MetricId> {
        FAMILY.metrics.iter().map(|definition| MetricId::from(*definition)).collect()
    }

    fn record(_: &MetricSetup<'_>, step: Step, record: &mut MetricRecord) {
        let [before, after] = step.grad_norm;
        record.push(&LOSS, step.loss);
        record.push(&PERPLEXITY, step.loss.exp());
        record.push(&GRAD_NORM, before);
        record.push(&GRAD_NORM_CLIPPED, after);
        record.push(&LR, step.lr);
    }
}

/// Records an evaluation.
pub fn record_evaluation(record: &mut MetricRecord, loss: f64) {
    record.push(&VAL_LOSS, loss);
    record.push(&VAL_PERPLEXITY, loss.exp());
}
