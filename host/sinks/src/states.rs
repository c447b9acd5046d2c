//! The states that sinks want kept in a checkpoint: asked for on the training thread, waited for on another.
//!
//! The question stands in a sink's queue behind every row before it, so an answer also says that those were taken.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// What a sink wants kept, or why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkState {
    /// The sink.
    pub name: String,
    /// Its own bytes; empty for most.
    pub state: Result<Vec<u8>, String>,
}

/// What a resumed run tells its sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkResume {
    /// The step the run goes on from: rows from it on come again.
    pub step: u64,
    /// Of each sink, in the run file's order: its state in the checkpoint, if there is one.
    pub states: Vec<Option<Vec<u8>>>,
}

/// Questions to sinks that are not answered yet.
#[derive(Debug, Default)]
pub struct StateRequest {
    pub(super) asked: Vec<(String, Option<Receiver<Vec<u8>>>)>,
}

impl StateRequest {
    /// Waits for all answers, together no longer than `patience`.
    #[must_use]
    pub fn wait(self, patience: Duration) -> Vec<SinkState> {
        let deadline = Instant::now() + patience;
        let answer = |(name, answer): (String, Option<Receiver<Vec<u8>>>)| {
            let left = deadline.saturating_duration_since(Instant::now());
            let state = match answer.map(|answer| answer.recv_timeout(left)) {
                Some(Ok(state)) => Ok(state),
                Some(Err(RecvTimeoutError::Timeout)) => {
                    Err(format!("no answer within {} s", patience.as_secs_f64()))
                }
                Some(Err(RecvTimeoutError::Disconnected)) => Err("it has failed".to_string()),
                None => Err("it takes no more messages".to_string()),
            };
            SinkState { name, state }
        };
        self.asked.into_iter().map(answer).collect()
    }
}
