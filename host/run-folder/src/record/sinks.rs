//! Counts of a run's rows and events in a sink, over the whole run: a resumed run continues the counts of its checkpoint.

use serde::{Deserialize, Serialize};

/// What became of the rows and events for one sink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkCounts {
    /// As messages call it.
    pub name: String,
    /// Rows it took.
    pub rows: u64,
    /// Rows it did not take: dropped while its queue was full, or after it failed. While the run goes on, rows that
    /// wait in the queue count as neither.
    pub missing_rows: u64,
    /// The same of events.
    pub missing_events: u64,
    /// The step of the first row or event that was dropped.
    pub missing_from_step: Option<u64>,
    /// What it had taken and a resumed run found gone or changed, a sentence each time.
    pub gaps: Vec<String>,
}
