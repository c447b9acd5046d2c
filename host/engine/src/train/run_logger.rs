//! Destinations of a run's rows and events: its sinks, the file of events, and the terminal. Logging waits for none
//! of them.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{AlertLevel, RunOutcome};
use altgrad_run_folder::{
    events::{EVENTS, Event, EventLog},
    record::SinkCounts,
};
use altgrad_sinks::{SinkFault, Sinks, StateRequest};

use super::progress::ProgressListener;
use crate::metrics::{MetricId, MetricRecord};

/// The kind of events about sinks.
const SINK: &str = "sink";

/// The destinations of a run's rows and events.
pub struct RunLogger<'a> {
    sinks: Sinks,
    events: EventLog,
    /// The terminal, or the program that started the run.
    pub listener: &'a mut dyn ProgressListener,
}

impl<'a> RunLogger<'a> {
    /// Opens the file of events in the run folder; a resumed run keeps those before its first step.
    #[must_use]
    pub fn open(
        sinks: Sinks,
        folder: &Path,
        resumed: Option<u64>,
        listener: &'a mut dyn ProgressListener,
    ) -> Self {
        let path = folder.join(EVENTS);
        let events =
            resumed.map_or_else(|| EventLog::open(path.clone()), |step| EventLog::resume(path.clone(), step));
        Self { sinks, events, listener }
    }

    /// Requests the checkpoint state of the sinks, after all rows so far. Events so far are durable then.
    #[must_use]
    pub fn request_states(&mut self) -> StateRequest {
        self.events.sync();
        self.sinks.request_states()
    }

    /// Records events; warnings and errors are shown too.
    pub fn log_events(&mut self, events: Vec<Event>) {
        for event in events {
            if event.level == AlertLevel::INFO {
                self.log_event(event);
            } else {
                self.log_alert(event);
            }
        }
    }

    /// Passes a row to the sinks.
    pub fn log_metrics(&mut self, record: MetricRecord) {
        self.sinks.write(record);
    }

    /// Records an event in the file and passes it to the sinks.
    pub fn log_event(&mut self, event: Event) {
        self.events.write(&event);
        self.sinks.alert(event);
    }

    /// Also shows the event on the terminal, unless it is no error and the run is quiet.
    pub fn log_alert(&mut self, event: Event) {
        let text = format!("alert at step {} ({}): {}", event.step, event.kind, event.text);
        if event.level == AlertLevel::ERROR {
            self.listener.say(&text);
        } else {
            self.listener.mention(&text);
        }
        self.log_event(event);
    }

    /// Reports and records faults in sinks since the last call; the other sinks receive them.
    pub fn log_sink_faults(&mut self, step: u64) {
        for fault in self.sinks.new_faults() {
            let (level, fault, so) = match fault {
                SinkFault::Closed(fault) => {
                    (AlertLevel::ERROR, fault, "training continues without this sink")
                }
                SinkFault::Gap(fault) => {
                    (AlertLevel::WARN, fault, "training continues; its files keep the gap")
                }
                SinkFault::Full(fault) => (AlertLevel::WARN, fault, "training does not wait for it"),
            };
            self.listener.say(&format!("{fault}\n  {so}"));
            self.log_event(Event::new(step, level, SINK, fault.message));
        }
    }

    /// The counts of delivered and lost rows and events of each sink so far.
    #[must_use]
    pub fn counts(&self) -> Vec<SinkCounts> {
        self.sinks.counts()
    }

    /// Sends the closing values and waits for the sinks, up to their deadlines. Returns the counts of rows and
    /// events in each sink, and reports of missing ones; `events.jsonl` has them too.
    pub fn finish(
        mut self,
        step: u64,
        summary: &[(MetricId, f64)],
        outcome: RunOutcome,
    ) -> (Vec<SinkCounts>, Vec<Diagnostic>) {
        let (counts, mut faults) = self.sinks.finish(summary, outcome);
        for fault in &faults {
            self.events.write(&Event::new(step, AlertLevel::ERROR, SINK, &fault.message));
        }
        faults.extend(self.events.finish());
        (counts, faults)
    }
}
