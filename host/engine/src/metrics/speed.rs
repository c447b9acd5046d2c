//! Times and rates.

use std::time::Duration;

use altgrad_metrics::{
    MetricId, MetricRecord,
    families::speed::{FAMILY, MEMORY_MB, MFU, MFU_DATA_SHEET, STEP_MS, TOKENS_PER_S},
};

use super::family::{MetricFamily, MetricSetup};

/// The time of a step.
#[derive(Debug, Clone, Copy)]
pub struct StepTime {
    /// The time of its gradients and update.
    pub elapsed: Duration,
    /// Model FLOPs utilization, if the device's rate was measured.
    pub utilization: Option<f64>,
    /// That at the rate of the device's data sheet, if it is known.
    pub sheet_utilization: Option<f64>,
}

/// The family.
pub struct SpeedFamily;

impl MetricFamily for SpeedFamily {
    /// Tokens of the step, the time it took, and the bytes of memory after it.
    type Inputs<'a> = (u64, StepTime, Option<u64>);

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let is_known = |name: &str| setup.data_sheet || name != MFU_DATA_SHEET.name;
        let definitions = FAMILY.metrics.iter().filter(|definition| is_known(definition.name));
        definitions.map(|definition| MetricId::from(*definition)).collect()
    }

    fn record(_: &MetricSetup<'_>, (tokens, time, memory): Self::Inputs<'_>, record: &mut MetricRecord) {
        let elapsed = time.elapsed;
        record.push(&TOKENS_PER_S, tokens as f64 / elapsed.as_secs_f64());
        record.push(&STEP_MS, elapsed.as_secs_f64() * 1e3);
        record.push_some(&MFU, time.utilization);
        record.push_some(&MFU_DATA_SHEET, time.sheet_utilization);
        record.push_some(&MEMORY_MB, memory.map(|bytes| bytes as f64 / 1e6));
    }
}
