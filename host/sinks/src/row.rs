//! A row for all sinks.

use std::sync::OnceLock;

use altgrad_metrics::MetricRecord;

/// A record and the names of its metrics, which are computed once, for the first sink that needs them.
pub(super) struct Row {
    pub(super) record: MetricRecord,
    names: OnceLock<RowNames>,
}

/// Names of a record's values and histograms.
pub(super) struct RowNames {
    pub(super) values: Vec<String>,
    pub(super) histograms: Vec<String>,
}

impl Row {
    pub(super) fn new(record: MetricRecord) -> Self {
        Self { record, names: OnceLock::new() }
    }

    pub(super) fn names(&self) -> &RowNames {
        self.names.get_or_init(|| RowNames {
            values: self.record.values.iter().map(|(id, _)| id.to_string()).collect(),
            histograms: self.record.histograms.iter().map(|histogram| histogram.id.to_string()).collect(),
        })
    }
}
