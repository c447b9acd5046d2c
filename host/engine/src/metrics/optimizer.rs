//! Numbers of the optimizer's own: its states of one number.

use altgrad_metrics::{FormatName, MetricId, MetricRecord, Statistic, families::optimizer::OWN_NUMBER};

use super::family::{MetricFamily, MetricSetup};

/// The family.
pub struct OptimizerFamily;

/// The metric of a name; none if the name cannot be a part of a metric's.
fn id(name: &str) -> Option<MetricId> {
    Some(Statistic::new(&OWN_NUMBER).of_format(FormatName::new(name)?).into())
}

impl MetricFamily for OptimizerFamily {
    /// In the order of the names.
    type Inputs<'a> = &'a [f64];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        setup.optimizer.iter().filter_map(|name| id(name)).collect()
    }

    fn record(setup: &MetricSetup<'_>, numbers: &[f64], record: &mut MetricRecord) {
        for (name, &number) in setup.optimizer.iter().zip(numbers) {
            if let Some(id) = id(name) {
                record.push(id, number);
            }
        }
    }
}
