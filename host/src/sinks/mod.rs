//! Sinks: every record and event to every sink, each on its own thread behind a bounded queue.
//!
//! The training thread never waits for a sink, slow, hung or dead. A full queue takes nothing more until there is room:
//! what comes meanwhile is dropped, newest first, so that what was queued stays in order. A failed sink is closed.
//! Opening and finishing have a deadline. What a sink did not take is counted, and reported when it begins and at
//! the end; none of it ends the run. The module `worker` is the thread of one sink.

mod states;
mod worker;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use altgrad_plugin_api::RunOutcome;
use serde::Serialize;

use crate::{
    diagnostic::Diagnostic,
    events::Event,
    metrics::{MetricId, MetricRecord},
    plugins::SinkPlugin,
};
pub use states::{SinkResume, SinkState, StateRequest};
use worker::{Row, Worker};

/// What a sink is told when it is opened.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run's name.
    pub name: String,
    /// The run folder, absolute.
    pub folder: String,
    /// The resolved run file.
    pub config_toml: String,
    /// Metrics a row may carry.
    pub metrics: Vec<MetricId>,
    /// Where a resumed run goes on; `None` for a fresh one.
    pub resume: Option<SinkResume>,
}

/// A sink that is not open yet, and what the host allows it.
pub struct SinkSetup {
    /// The sink.
    pub plugin: SinkPlugin,
    /// Rows and events it may lag behind.
    pub queue: usize,
    /// How long it may take to open, and to finish.
    pub deadline: Duration,
}

/// What became of the rows and events for one sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// What went wrong in a sink.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkFault {
    /// It failed and is closed.
    Closed(Diagnostic),
    /// It cannot keep up: some rows are dropped from here on.
    Full(Diagnostic),
}

/// The sinks of a run.
pub struct Sinks {
    workers: Vec<Worker>,
}

impl Sinks {
    /// Starts a thread a sink and opens them all.
    ///
    /// # Errors
    /// The first sink that cannot be opened, or not within its deadline; the others are finished as failed.
    pub fn open(setups: Vec<SinkSetup>, facts: RunFacts) -> Result<Self, Diagnostic> {
        let facts = Arc::new(facts);
        let mut sinks = Self { workers: Vec::new() };
        for (index, setup) in setups.into_iter().enumerate() {
            match Worker::open(setup, index, facts.clone()) {
                Ok(worker) => sinks.workers.push(worker),
                Err(diagnostic) => {
                    sinks.finish(&[], RunOutcome::Failed);
                    return Err(diagnostic);
                }
            }
        }
        Ok(sinks)
    }

    /// Hands a row to every sink; never waits.
    pub fn write(&mut self, record: MetricRecord) {
        let row = Arc::new(Row::new(record));
        for worker in &mut self.workers {
            worker.write(row.clone());
        }
    }

    /// Hands an event to every sink; never waits.
    pub fn alert(&mut self, event: Event) {
        let event = Arc::new(event);
        for worker in &mut self.workers {
            worker.alert(event.clone());
        }
    }

    /// Asks every sink for the state that a checkpoint keeps, behind all rows so far; never waits.
    #[must_use]
    pub fn request_states(&self) -> StateRequest {
        StateRequest { asked: self.workers.iter().map(Worker::request_state).collect() }
    }

    /// What went wrong in sinks since the last call: of each sink the first fault of a kind.
    pub fn new_faults(&mut self) -> Vec<SinkFault> {
        self.workers.iter_mut().flat_map(Worker::new_faults).collect()
    }

    /// What became of rows and events so far.
    #[must_use]
    pub fn counts(&self) -> Vec<SinkCounts> {
        self.workers.iter().map(Worker::counts).collect()
    }

    /// Hands over the closing values, ends the sinks and waits for them, each up to its deadline. Returns what became
    /// of rows and events, and what went wrong over the whole run.
    pub fn finish(
        self,
        summary: &[(MetricId, f64)],
        outcome: RunOutcome,
    ) -> (Vec<SinkCounts>, Vec<Diagnostic>) {
        let begun = Instant::now();
        let finishing: Vec<_> = self
            .workers
            .into_iter()
            .map(|worker| {
                let summary = summary.to_vec();
                thread::spawn(move || worker.finish(summary, outcome, begun))
            })
            .collect();
        let finished = finishing.into_iter().filter_map(|thread| thread.join().ok());
        let (counts, faults): (_, Vec<Vec<Diagnostic>>) = finished.unzip();
        (counts, faults.into_iter().flatten().collect())
    }
}
