//! One sink's thread: takes messages off the queue and calls the plugin.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{
    Alert, MetricName as ApiName, RunInfo, RunOutcome,
    abi::abi_stable::std_types::{ROption, RSlice},
    sink::{Histogram, Metric},
};

use super::RunFacts;
use crate::{
    diagnostic::Diagnostic,
    events::Event,
    metrics::{MetricName, MetricRecord, Nature},
    plugins::SinkPlugin,
};

/// Messages a sink may lag behind before they are dropped.
const QUEUE: usize = 4096;

enum Message {
    Row(Arc<MetricRecord>),
    Alert(Arc<Event>),
    State(mpsc::Sender<Vec<u8>>),
    Finish(Vec<(MetricName, f64)>, RunOutcome),
}

/// The training thread's end of a sink.
pub(super) struct Worker {
    name: String,
    queue: SyncSender<Message>,
    /// Closed when the thread is done.
    done: Receiver<()>,
    /// Why the thread stopped taking rows.
    fault: Arc<Mutex<Option<Diagnostic>>>,
    fault_reported: bool,
    dropped_rows: u64,
    dropped_events: u64,
}

impl Worker {
    /// Starts the thread of the run's sink number `index` and waits until the plugin has opened.
    pub(super) fn open(plugin: SinkPlugin, index: usize, facts: Arc<RunFacts>) -> Result<Self, Diagnostic> {
        let name = plugin.identity.name.clone();
        let (queue, messages) = mpsc::sync_channel(QUEUE);
        let (opened, open_result) = mpsc::channel();
        let (done_sender, done) = mpsc::channel();
        let fault = Arc::new(Mutex::new(None));
        let thread_fault = fault.clone();
        thread::Builder::new()
            .name(format!("sink-{name}"))
            .spawn(move || {
                serve(plugin, (index, &facts), &opened, &messages, &thread_fault);
                drop(done_sender);
            })
            .map_err(|error| {
                Diagnostic::run(format!("cannot start the thread of sink `{name}` ({error})"))
            })?;
        open_result.recv().unwrap_or_else(|_| {
            Err(Diagnostic::run(format!("the thread of sink `{name}` ended while opening")))
        })?;
        Ok(Self { name, queue, done, fault, fault_reported: false, dropped_rows: 0, dropped_events: 0 })
    }

    pub(super) fn write(&mut self, record: Arc<MetricRecord>) {
        self.dropped_rows += u64::from(!self.send(Message::Row(record)));
    }

    pub(super) fn alert(&mut self, event: Arc<Event>) {
        self.dropped_events += u64::from(!self.send(Message::Alert(event)));
    }

    /// Asks for its state; nobody answers if the message found no room.
    pub(super) fn request_state(&self) -> (String, Option<Receiver<Vec<u8>>>) {
        let (sender, answer) = mpsc::channel();
        (self.name.clone(), self.send(Message::State(sender)).then_some(answer))
    }

    /// Whether the message found room. A closed queue means that the sink has failed; its fault says why.
    fn send(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }

    pub(super) fn new_fault(&mut self) -> Option<Diagnostic> {
        if self.fault_reported {
            return None;
        }
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.fault_reported = fault.is_some();
        fault
    }

    /// Hands over the closing values, waits for the thread until the deadline, and says what went wrong in this sink.
    pub(super) fn finish(
        self,
        summary: Vec<(MetricName, f64)>,
        outcome: RunOutcome,
        deadline: Instant,
    ) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        let mut message = Message::Finish(summary, outcome);
        // A full queue drains, or its sink hangs and the deadline comes; a dead thread has closed it.
        while let Err(TrySendError::Full(unsent)) = self.queue.try_send(message) {
            if Instant::now() >= deadline {
                break;
            }
            message = unsent;
            thread::sleep(Duration::from_millis(5));
        }
        let patience = deadline.saturating_duration_since(Instant::now());
        if matches!(self.done.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) {
            faults.push(Diagnostic::run(format!("sink `{}` did not finish in time", self.name)));
        }
        faults.extend(self.fault.lock().unwrap_or_else(PoisonError::into_inner).take());
        for (dropped, what) in [(self.dropped_rows, "rows"), (self.dropped_events, "events")] {
            if dropped > 0 {
                faults.push(Diagnostic::run(format!("sink `{}` is missing {dropped} {what}", self.name)));
            }
        }
        faults
    }
}

/// The thread's life: open, rows and events, finish. Stops at the first fault.
fn serve(
    mut plugin: SinkPlugin,
    facts: (usize, &RunFacts),
    opened: &mpsc::Sender<Result<(), Diagnostic>>,
    messages: &Receiver<Message>,
    fault: &Mutex<Option<Diagnostic>>,
) {
    let open = open(&mut plugin, facts);
    let failed = open.is_err();
    let _ = opened.send(open);
    if failed {
        return;
    }
    for message in messages {
        let (result, last) = match message {
            Message::Row(record) => (write(&mut plugin, &record), false),
            Message::Alert(event) => (plugin.alert(&alert(&event)), false),
            // Who asked may have gone.
            Message::State(asked) => (plugin.state().map(|state| drop(asked.send(state))), false),
            Message::Finish(summary, outcome) => {
                (plugin.summary(&metrics(&summary)).and_then(|()| plugin.finish(outcome)), true)
            }
        };
        if let Err(diagnostic) = result {
            *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(diagnostic);
            return;
        }
        if last {
            return;
        }
    }
}

/// A row, then its distributions.
fn write(plugin: &mut SinkPlugin, record: &MetricRecord) -> Result<(), Diagnostic> {
    plugin.log(record.step, &metrics(&record.values))?;
    record.histograms.iter().try_for_each(|histogram| {
        plugin.histogram(
            record.step,
            &Histogram {
                name: histogram.name.as_str().into(),
                edges: RSlice::from_slice(&histogram.edges),
                counts: RSlice::from_slice(&histogram.counts),
            },
        )
    })
}

fn open(plugin: &mut SinkPlugin, (index, facts): (usize, &RunFacts)) -> Result<(), Diagnostic> {
    let resume = facts.resume.as_ref();
    let state = resume.and_then(|resume| resume.states.get(index)?.as_deref()).unwrap_or_default();
    let names: Vec<ApiName<'_>> = facts.metrics.iter().map(api_name).collect();
    plugin.open(&RunInfo {
        name: facts.name.as_str().into(),
        folder: facts.folder.as_str().into(),
        config_toml: facts.config_toml.as_str().into(),
        metrics: RSlice::from_slice(&names),
        resume_step: ROption::from(resume.map(|resume| resume.step)),
        state: state.into(),
    })
}

fn alert(event: &Event) -> Alert<'_> {
    Alert { step: event.step, level: event.level, kind: event.kind.into(), text: event.text.as_str().into() }
}

fn metrics(values: &[(MetricName, f64)]) -> Vec<Metric<'_>> {
    values.iter().map(|(name, value)| Metric { name: api_name(name), value: *value }).collect()
}

fn api_name(name: &MetricName) -> ApiName<'_> {
    ApiName { name: name.name.as_ref().into(), timing: name.nature == Nature::Timing }
}
