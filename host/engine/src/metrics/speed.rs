//! Times and rates.

use std::time::Duration;

use altgrad_metrics::{
    MetricId, MetricRecord,
    families::speed::{FAMILY, STEP_MS, TOKENS_PER_S},
};

use super::family::{MetricFamily, MetricSetup};

/// The family.
pub struct SpeedFamily;

impl MetricFamily for SpeedFamily {
    /// Tokens of the step, and the time it took.
    type Inputs<'a> = (u64, Duration);

    fn ids(_: &MetricSetup<'_>) -> Vec<MetricId> {
        FAMILY.metrics.iter().map(|definition| MetricId::from(*definition)).collect()
    }

    fn record(_: &MetricSetup<'_>, (tokens, elapsed): (u64, Duration), record: &mut MetricRecord) {
        record.push(&TOKENS_PER_S, tokens as f64 / elapsed.as_secs_f64());
        record.push(&STEP_MS, elapsed.as_secs_f64() * 1e3);
    }
}
