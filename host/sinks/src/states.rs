//! The states of sinks for a checkpoint: requested on the training thread, awaited on another.
//!
//! The request is in a sink's queue after all earlier rows, so an answer also means that the sink has processed those.
//! A sink that does not answer within its deadline is closed: it is awaited once, not at every checkpoint.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use altgrad_run_folder::record::SinkCounts;

use crate::ledger::{Ledger, WorkerState};

/// The state of a sink for a checkpoint, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkState {
    /// The counts of the sink's rows and events before the request.
    pub counts: SinkCounts,
    /// Its own bytes; empty for most.
    pub state: Result<Vec<u8>, String>,
}

/// The information that a resumed run gives its sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkResume {
    /// The step at which the run resumes: rows from it on are repeated.
    pub step: u64,
    /// The checkpoint's state of each sink, in the run file's order.
    pub sinks: Vec<ResumedSink>,
}

/// A checkpoint's state of a sink; empty for a new sink of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumedSink {
    /// Its own bytes.
    pub state: Vec<u8>,
    /// The counts of its rows and events at the checkpoint.
    pub counts: SinkCounts,
}

/// A sink with a requested state.
#[derive(Debug)]
pub(super) struct AskedSink {
    pub name: String,
    /// The deadline, counted from the request.
    pub deadline: Duration,
    /// None if the queue was full or the sink closed.
    pub answer: Option<Receiver<Vec<u8>>>,
    pub progress: Arc<WorkerState>,
    /// The counts at the time of the request.
    pub ledger: Ledger,
}

impl AskedSink {
    /// Waits for the answer; closes the sink if its deadline passes.
    fn wait(self, begun: Instant) -> SinkState {
        let left = (begun + self.deadline).saturating_duration_since(Instant::now());
        let answer = self.answer.as_ref().map(|answer| answer.recv_timeout(left));
        if matches!(answer, Some(Err(RecvTimeoutError::Timeout))) {
            self.progress.miss_deadline(&self.name, "return its state for a checkpoint", self.deadline);
        }
        let state = answer.and_then(Result::ok).ok_or_else(|| match self.progress.fault() {
            Some(_) => "it is closed".to_string(),
            None => "its queue was full".to_string(),
        });
        let counts = match &state {
            Ok(_) => self.ledger.all_taken(),
            Err(_) => self.ledger.counts(&self.progress),
        };
        SinkState { counts, state }
    }
}

/// Requests to sinks without an answer so far.
#[derive(Debug)]
pub struct StateRequest {
    pub(super) begun: Instant,
    pub(super) asked: Vec<AskedSink>,
}

impl StateRequest {
    /// Waits for all answers, for each at most until its sink's deadline after the request.
    #[must_use]
    pub fn wait(self) -> Vec<SinkState> {
        let begun = self.begun;
        self.asked.into_iter().map(|sink| sink.wait(begun)).collect()
    }
}

impl Default for StateRequest {
    /// A request to no sink.
    fn default() -> Self {
        Self { begun: Instant::now(), asked: Vec::new() }
    }
}
