//! Loss, gradient norm, learning rate and speed.

use super::{MetricName, MetricRecord};

/// Mean cross-entropy of the step's batch before its update, nats per token.
pub const LOSS: MetricName = MetricName::constant("train/loss");
/// `exp` of it.
pub const PERPLEXITY: MetricName = MetricName::constant("train/perplexity");
/// Mean cross-entropy of the held-out batches before the step's update, nats per token.
pub const VAL_LOSS: MetricName = MetricName::constant("val/loss");
/// `exp` of it.
pub const VAL_PERPLEXITY: MetricName = MetricName::constant("val/perplexity");
/// Global L2 norm of the gradients before clipping.
pub const GRAD_NORM: MetricName = MetricName::constant("train/grad_norm");
/// The same after clipping.
pub const GRAD_NORM_CLIPPED: MetricName = MetricName::constant("train/grad_norm_clipped");
/// Learning rate of the step.
pub const LR: MetricName = MetricName::constant("train/lr");
/// Training tokens a second, evaluation not counted.
pub const TOKENS_PER_S: MetricName = MetricName::timing("train/tokens_per_s");
/// Milliseconds from drawing the batch to the end of the update.
pub const STEP_MS: MetricName = MetricName::timing("train/step_ms");

/// The family's reproducible metrics.
pub const NAMES: [MetricName; 7] =
    [LOSS, PERPLEXITY, VAL_LOSS, VAL_PERPLEXITY, GRAD_NORM, GRAD_NORM_CLIPPED, LR];
/// The family's timings.
pub const TIMINGS: [MetricName; 2] = [TOKENS_PER_S, STEP_MS];

/// Records an evaluation.
pub fn record_validation(record: &mut MetricRecord, loss: f64) {
    record.push(VAL_LOSS, loss);
    record.push(VAL_PERPLEXITY, loss.exp());
}

/// Records a step; `grad_norm` is the gradients' before and after clipping.
pub fn record_step(record: &mut MetricRecord, loss: f64, grad_norm: [f64; 2], lr: f64) {
    record.push(LOSS, loss);
    record.push(PERPLEXITY, loss.exp());
    record.push(GRAD_NORM, grad_norm[0]);
    record.push(GRAD_NORM_CLIPPED, grad_norm[1]);
    record.push(LR, lr);
}

/// Records how long a step of `tokens` tokens took.
pub fn record_speed(record: &mut MetricRecord, tokens: u64, elapsed: std::time::Duration) {
    record.push(TOKENS_PER_S, tokens as f64 / elapsed.as_secs_f64());
    record.push(STEP_MS, elapsed.as_secs_f64() * 1e3);
}
