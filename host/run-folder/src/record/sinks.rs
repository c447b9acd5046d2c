//! Counts of a run's rows and events in a sink, over the whole run: a resumed run continues the counts of its
//! checkpoint.

use serde::{Deserialize, Serialize};

/// Counts of rows and events of one sink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkCounts {
    /// The name in messages.
    pub name: String,
    /// Rows that the sink accepted.
    pub rows: u64,
    /// Rows that it did not accept: dropped while its queue was full, or after it failed. During the run, rows that
    /// wait in the queue count as neither.
    pub missing_rows: u64,
    /// Events that it did not accept.
    pub missing_events: u64,
    /// The step of the first row or event that it did not accept.
    pub missing_from_step: Option<u64>,
    /// Accepted rows that a resumed run found missing or changed, one sentence per resume.
    pub gaps: Vec<String>,
}
