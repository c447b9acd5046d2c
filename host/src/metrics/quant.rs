//! What rounding did to the quantized tensors of a step.

use super::{MetricName, MetricRecord};
use crate::quant::Seen;

/// Share of elements beyond the largest finite code after scaling (they saturate), 0..1.
pub const OVERFLOW_RATE: MetricName = MetricName::value("quant/overflow_rate");
/// Share of non-zero elements that become zero, 0..1; missing if every element is zero.
pub const UNDERFLOW_RATE: MetricName = MetricName::value("quant/underflow_rate");
/// NaN elements the quantizer was given.
pub const NAN_COUNT: MetricName = MetricName::value("quant/nan_count");
/// `10 log10(sum x^2 / sum (x_hat - x)^2)`, dB; missing if nothing was rounded.
pub const SQNR_DB: MetricName = MetricName::value("quant/sqnr_db");

/// The family's metrics.
pub const NAMES: [MetricName; 4] = [OVERFLOW_RATE, UNDERFLOW_RATE, NAN_COUNT, SQNR_DB];

/// Records what the quantizer saw in a step, over all quantized tensors.
pub fn record(record: &mut MetricRecord, seen: &Seen) {
    let stats = &seen.stats;
    let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    record.push_some(OVERFLOW_RATE, share(stats.overflow, seen.elements));
    record.push_some(UNDERFLOW_RATE, share(stats.underflow, stats.nonzero));
    record.push(NAN_COUNT, stats.nan as f64);
    let both = stats.sum_x2 > 0.0 && stats.sum_err2 > 0.0;
    record.push_some(SQNR_DB, both.then(|| 10.0 * (stats.sum_x2 / stats.sum_err2).log10()));
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::QuantStats;

    use super::*;

    #[test]
    fn what_cannot_be_computed_is_missing() {
        let mut row = MetricRecord::new(0);
        record(&mut row, &Seen::default());
        assert_eq!(row.values, [(NAN_COUNT, 0.0)]);
        let stats = QuantStats {
            overflow: 1,
            underflow: 1,
            nonzero: 2,
            sum_x2: 100.0,
            sum_err2: 1.0,
            ..QuantStats::default()
        };
        let mut row = MetricRecord::new(0);
        record(&mut row, &Seen { elements: 4, stats });
        let expected = [(OVERFLOW_RATE, 0.25), (UNDERFLOW_RATE, 0.5), (NAN_COUNT, 0.0), (SQNR_DB, 20.0)];
        assert_eq!(row.values, expected);
    }
}
