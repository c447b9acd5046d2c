//! Sinks: every record and event to every sink, each on its own thread behind a bounded queue.
//!
//! The training thread never waits for a sink. A full queue drops the message and counts it; a failed sink is
//! closed; both are reported, neither ends the run. The module `worker` is the thread of one sink.

mod states;
mod worker;

use std::{sync::Arc, thread, time::Duration};

use altgrad_plugin_api::RunOutcome;

use crate::{
    diagnostic::Diagnostic,
    events::Event,
    metrics::{MetricName, MetricRecord},
    plugins::SinkPlugin,
};
pub use states::{SinkResume, SinkState, StateRequest};
use worker::Worker;

/// How long all sinks together may take to finish.
const FINISH_DEADLINE: Duration = Duration::from_secs(30);

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
    pub metrics: Vec<MetricName>,
    /// Where a resumed run goes on; `None` for a fresh one.
    pub resume: Option<SinkResume>,
}

/// The sinks of a run.
pub struct Sinks {
    workers: Vec<Worker>,
}

impl Sinks {
    /// Starts a thread a sink and opens them all.
    ///
    /// # Errors
    /// The first sink that cannot be opened; the others are finished as failed.
    pub fn open(plugins: Vec<SinkPlugin>, facts: RunFacts) -> Result<Self, Diagnostic> {
        let facts = Arc::new(facts);
        let mut sinks = Self { workers: Vec::new() };
        for (index, plugin) in plugins.into_iter().enumerate() {
            match Worker::open(plugin, index, facts.clone()) {
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
        let record = Arc::new(record);
        for worker in &mut self.workers {
            worker.write(record.clone());
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

    /// What went wrong in sinks since the last call: each fault once.
    pub fn new_faults(&mut self) -> Vec<Diagnostic> {
        self.workers.iter_mut().filter_map(Worker::new_fault).collect()
    }

    /// Hands over the closing values, ends the sinks and waits for them, up to a deadline. Returns what went
    /// wrong over the whole run, rows and events that were dropped included.
    pub fn finish(self, summary: &[(MetricName, f64)], outcome: RunOutcome) -> Vec<Diagnostic> {
        let deadline = std::time::Instant::now() + FINISH_DEADLINE;
        let finishing: Vec<_> = self
            .workers
            .into_iter()
            .map(|worker| {
                let summary = summary.to_vec();
                thread::spawn(move || worker.finish(summary, outcome, deadline))
            })
            .collect();
        finishing.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}
