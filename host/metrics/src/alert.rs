//! The alerts that have a threshold, and their metrics.

pub use crate::{
    alert_kind::{AlertKind, HIGH_RATE, Severity},
    definition::{AlertDefinition, Condition},
};
use crate::{definition::MetricDefinition, families};

/// Every alert that has a threshold, with its metric, in the order of the kinds.
#[must_use]
pub fn thresholds() -> Vec<(&'static MetricDefinition, &'static AlertDefinition)> {
    let mut all: Vec<_> = families::definitions()
        .flat_map(|definition| definition.alerts.iter().map(move |alert| (definition, *alert)))
        .collect();
    all.sort_by_key(|(_, alert)| alert.kind);
    all
}
