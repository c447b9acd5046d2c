//! Sinks: every record and event goes to every sink, each with a thread and a bounded queue of its own.
//!
//! The training thread does not wait for a slow, hanging or dead sink. A full queue drops new rows until it has space,
//! so that queued rows stay in order. Opening, the state for a checkpoint and finishing have a deadline. A sink that
//! fails or misses a deadline is closed: it gets no more rows, and nothing waits for it again. Missing rows are
//! counted, and reported when the loss begins and at the end; they do not end the run. The module `worker` is the
//! thread of one sink.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod filter;
mod ledger;
mod row;
mod setup;
mod states;
mod worker;

use std::{sync::Arc, thread, time::Instant};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::{MetricId, MetricRecord};
use altgrad_plugin_api::RunOutcome;
use altgrad_run_folder::{events::Event, record::SinkCounts};

pub use filter::FilterChoice;
use row::Row;
pub use setup::{RunFacts, SinkFault, SinkSetup};
pub use states::{ResumedSink, SinkResume, SinkState, StateRequest};
use worker::Worker;

/// The sinks of a run.
pub struct Sinks {
    workers: Vec<Worker>,
}

impl Sinks {
    /// Starts a thread per sink and opens all sinks.
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
                    sinks.finish(&[], RunOutcome::FAILED);
                    return Err(diagnostic);
                }
            }
        }
        Ok(sinks)
    }

    /// Queues a row for every sink; never waits.
    pub fn write(&mut self, record: MetricRecord) {
        let row = Arc::new(Row::new(record));
        for worker in &mut self.workers {
            worker.write(row.clone());
        }
    }

    /// Queues an event for every sink; never waits.
    pub fn alert(&mut self, event: Event) {
        let event = Arc::new(event);
        for worker in &mut self.workers {
            worker.alert(event.clone());
        }
    }

    /// Requests the checkpoint state of every sink, after all rows so far; never waits.
    #[must_use]
    pub fn request_states(&self) -> StateRequest {
        let asked = self.workers.iter().map(Worker::request_state).collect();
        StateRequest { begun: Instant::now(), asked }
    }

    /// The faults in sinks since the last call: the first fault of each kind per sink.
    pub fn new_faults(&mut self) -> Vec<SinkFault> {
        self.workers.iter_mut().flat_map(Worker::new_faults).collect()
    }

    /// The counts of delivered and lost rows and events so far.
    #[must_use]
    pub fn counts(&self) -> Vec<SinkCounts> {
        self.workers.iter().map(Worker::counts).collect()
    }

    /// Sends the closing values, ends the sinks and waits for them, each up to its deadline. Returns the counts of rows
    /// and events, and the faults of the whole run.
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
                let (counts, summary) = (worker.counts(), summary.to_vec());
                (counts, thread::spawn(move || worker.finish(summary, outcome, begun)))
            })
            .collect();
        let finished =
            finishing.into_iter().map(|(counts, thread)| thread.join().unwrap_or_else(|_| panicked(counts)));
        let (counts, faults): (_, Vec<Vec<Diagnostic>>) = finished.unzip();
        (counts, faults.into_iter().flatten().collect())
    }
}

/// The result of a thread that panicked while it ended a sink; `counts` are those before.
fn panicked(counts: SinkCounts) -> (SinkCounts, Vec<Diagnostic>) {
    let message =
        format!("the host panicked while it ended sink `{}`: its last rows may be missing", counts.name);
    (counts, vec![Diagnostic::run(message)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_at_the_end_is_a_fault_with_the_counts_before() {
        let before = SinkCounts { name: "csv".into(), rows: 7, ..SinkCounts::default() };
        let (counts, faults) = panicked(before.clone());
        assert_eq!(counts, before);
        assert!(matches!(&faults[..], [fault] if fault.message.contains("sink `csv`")), "{faults:?}");
    }
}
