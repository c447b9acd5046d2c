//! The metrics of one step, as the engine passes them to alerts and sinks.

use crate::id::MetricId;

/// The metrics of one step. Metrics that cannot be computed are absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricRecord {
    /// The step, from 0.
    pub step: u64,
    /// Values in the order they were recorded.
    pub values: Vec<(MetricId, f64)>,
    /// Distributions, on the steps that measure some.
    pub histograms: Vec<Histogram>,
}

/// A distribution, as sinks get it.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The metric.
    pub id: MetricId,
    /// Edges of the bins, ascending, one more than `counts`.
    pub edges: Vec<f64>,
    /// Elements a bin.
    pub counts: Vec<u64>,
}

impl MetricRecord {
    /// An empty record.
    #[must_use]
    pub fn new(step: u64) -> Self {
        Self { step, ..Self::default() }
    }

    /// Records a value.
    pub fn push(&mut self, id: impl Into<MetricId>, value: f64) {
        self.values.push((id.into(), value));
    }

    /// Records a value if there is one.
    pub fn push_some(&mut self, id: impl Into<MetricId>, value: Option<f64>) {
        if let Some(value) = value {
            self.push(id, value);
        }
    }
}
