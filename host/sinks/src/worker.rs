//! The thread of one sink, which takes messages from the queue and calls the plugin.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::SinkPlugin;
use altgrad_metrics::{MetricId, MetricKind};
use altgrad_plugin_api::{
    Alert, MetricName as ApiName, RunInfo, RunOutcome,
    abi::stable::std_types::{ROption, RSlice},
    sink::{Histogram, Metric},
};
use altgrad_run_folder::{events::Event, record::SinkCounts};

use crate::{
    filter::{Filter, FilterChoice},
    ledger::{Ledger, WorkerState},
    row::Row,
    setup::{RunFacts, SinkFault, SinkSetup},
    states::AskedSink,
};

enum Message {
    Row(Arc<Row>),
    Alert(Arc<Event>),
    State(mpsc::Sender<Vec<u8>>),
    Finish(Vec<(MetricId, f64)>, RunOutcome),
}

/// The training thread's end of a sink.
pub(super) struct Worker {
    name: String,
    queue: SyncSender<Message>,
    /// Capacity of the queue, messages.
    capacity: usize,
    filter: FilterChoice,
    deadline: Duration,
    /// Closed when the thread is done.
    done: Receiver<()>,
    progress: Arc<WorkerState>,
    ledger: Ledger,
    /// Missing rows of an earlier part of the run, until they are reported.
    gap: Option<String>,
    /// `full`: a message was dropped while the sink was open. The others: the drop and the fault were reported.
    full: bool,
    full_told: bool,
    fault_told: bool,
}

impl Worker {
    /// Starts the thread of the run's sink number `index` and waits until the plugin has opened, up to the deadline.
    pub(super) fn open(setup: SinkSetup, index: usize, facts: Arc<RunFacts>) -> Result<Self, Diagnostic> {
        let SinkSetup { plugin, queue: capacity, filter, deadline } = setup;
        let name = plugin.identity.name.clone();
        let (queue, messages) = mpsc::sync_channel(capacity);
        let (opened, open_result) = mpsc::channel();
        let (done_sender, done) = mpsc::channel();
        let progress = Arc::new(WorkerState::default());
        let (thread_progress, thread_facts, thread_name) = (progress.clone(), facts.clone(), name.clone());
        let thread_filter = Filter::new(&filter);
        thread::Builder::new()
            .name(format!("sink-{name}"))
            .spawn(move || {
                thread_progress.close_on_panic(&thread_name, || {
                    serve(
                        (plugin, thread_filter),
                        (index, &thread_facts),
                        &opened,
                        &messages,
                        &thread_progress,
                    );
                });
                drop(done_sender);
            })
            .map_err(|error| {
                Diagnostic::run(format!("cannot start the thread of sink `{name}` ({error})"))
            })?;
        let gap = open_result.recv_timeout(deadline).unwrap_or_else(|error| {
            Err(Diagnostic::run(match error {
                RecvTimeoutError::Disconnected => format!("the thread of sink `{name}` ended while opening"),
                RecvTimeoutError::Timeout => format!("sink `{name}` did not open within {deadline:?}"),
            })
            .hint("give it more time with `deadline_s` in its [[sink]], or leave it out"))
        })?;
        let earlier = facts.resume.as_ref().and_then(|resume| resume.sinks.get(index)).cloned();
        let earlier = earlier.unwrap_or_default().counts;
        let gaps = earlier.gaps.iter().chain(&gap).cloned().collect();
        let earlier = SinkCounts { name: name.clone(), gaps, ..earlier };
        Ok(Self {
            name,
            queue,
            capacity,
            filter,
            deadline,
            done,
            progress,
            ledger: Ledger::after(earlier),
            gap,
            full: false,
            full_told: false,
            fault_told: false,
        })
    }

    pub(super) fn write(&mut self, row: Arc<Row>) {
        if !self.filter.takes_row(&row) {
            return;
        }
        self.ledger.rows.all += 1;
        let step = row.record.step;
        self.ledger.rows.dropped += u64::from(!self.send(step, Message::Row(row)));
    }

    pub(super) fn alert(&mut self, event: Arc<Event>) {
        self.ledger.events.all += 1;
        let step = event.step;
        self.ledger.events.dropped += u64::from(!self.send(step, Message::Alert(event)));
    }

    /// Requests its state; there is no answer if the sink is closed or its queue full.
    pub(super) fn request_state(&self) -> AskedSink {
        let (sender, answer) = mpsc::channel();
        let asked = self.try_send(Message::State(sender)).is_ok();
        AskedSink {
            name: self.name.clone(),
            deadline: self.deadline,
            answer: asked.then_some(answer),
            progress: self.progress.clone(),
            ledger: self.ledger.clone(),
        }
    }

    /// Puts a message into the queue of a sink that is not closed.
    fn try_send(&self, message: Message) -> Result<(), TrySendError<Message>> {
        match self.progress.fault() {
            Some(_) => Err(TrySendError::Disconnected(message)),
            None => self.queue.try_send(message),
        }
    }

    /// Sends a message, and returns whether the sink can still receive it. A closed sink receives none; its fault has
    /// the reason.
    fn send(&mut self, step: u64, message: Message) -> bool {
        // Before it is sent: the sink may take it at once.
        self.ledger.queue(step, &self.progress);
        let sent = self.try_send(message);
        if sent.is_err() {
            self.ledger.unqueue(step);
        }
        self.full |= matches!(sent, Err(TrySendError::Full(_)));
        sent.is_ok()
    }

    pub(super) fn new_faults(&mut self) -> Vec<SinkFault> {
        let mut faults = Vec::new();
        faults.extend(self.gap.take().map(|gap| SinkFault::Gap(gap_fault(&self.name, &gap))));
        if self.full && !self.full_told {
            self.full_told = true;
            let (name, capacity) = (&self.name, self.capacity);
            let message =
                format!("sink `{name}` cannot keep up: its queue of {capacity} rows and events is full");
            let hint =
                "rows that arrive while it is full are dropped; `queue` in its [[sink]] makes it longer";
            faults.push(SinkFault::Full(Diagnostic::run(message).hint(hint)));
        }
        if let Some(fault) = self.progress.fault().filter(|_| !self.fault_told) {
            faults.push(SinkFault::Closed(fault.clone()));
            self.fault_told = true;
        }
        faults
    }

    pub(super) fn counts(&self) -> SinkCounts {
        self.ledger.counts(&self.progress)
    }

    /// Sends the closing values, waits for the thread until the deadline unless it hangs, and returns the faults of
    /// this sink.
    pub(super) fn finish(
        self,
        summary: Vec<(MetricId, f64)>,
        outcome: RunOutcome,
        begun: Instant,
    ) -> (SinkCounts, Vec<Diagnostic>) {
        let deadline = begun + self.deadline;
        let mut message = Message::Finish(summary, outcome);
        // A full queue drains, or its sink hangs and the deadline comes; a dead thread has closed it.
        while let Err(TrySendError::Full(unsent)) = self.try_send(message) {
            if Instant::now() >= deadline {
                break;
            }
            message = unsent;
            thread::sleep(Duration::from_millis(5));
        }
        let hangs = self.progress.hangs.load(Ordering::Acquire);
        let patience =
            if hangs { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
        if matches!(self.done.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) {
            self.progress.miss_deadline(&self.name, "finish", self.deadline);
        }
        let mut faults = Vec::from_iter(self.progress.fault().cloned());
        let counts = self.counts();
        for (missing, what) in [(counts.missing_rows, "rows"), (counts.missing_events, "events")] {
            if missing > 0 {
                let from = counts.missing_from_step.map(|step| format!(", from step {step} on"));
                let from = from.unwrap_or_default();
                faults
                    .push(Diagnostic::run(format!("sink `{}` is missing {missing} {what}{from}", self.name)));
            }
        }
        faults.extend(counts.gaps.iter().map(|gap| gap_fault(&self.name, gap)));
        (counts, faults)
    }
}

fn gap_fault(name: &str, gap: &str) -> Diagnostic {
    Diagnostic::run(format!("sink `{name}` lost rows of an earlier part of the run: {gap}"))
        .hint("a file was cut, deleted or edited after its checkpoint; an earlier checkpoint, or another run, writes the rows again")
}

/// The thread of a sink: open, rows and events, finish. Stops at the first fault, and when others have closed the sink.
fn serve(
    (mut plugin, mut filter): (SinkPlugin, Filter),
    facts: (usize, &RunFacts),
    opened: &mpsc::Sender<Result<Option<String>, Diagnostic>>,
    messages: &Receiver<Message>,
    progress: &WorkerState,
) {
    let open = open(&mut plugin, &mut filter, facts);
    let failed = open.is_err();
    let _ = opened.send(open);
    if failed {
        return;
    }
    for message in messages {
        let (result, last) = match message {
            Message::Row(row) => (counted(&progress.rows, write(&mut plugin, &mut filter, &row)), false),
            Message::Alert(event) => (counted(&progress.events, plugin.alert(&alert(&event))), false),
            Message::State(asked) => {
                // The requester may have ended. It sees a fault before its channel closes.
                let state = plugin.state().inspect_err(|fault| progress.close(fault.clone()));
                (state.map(|state| drop(asked.send(state))), false)
            }
            Message::Finish(summary, outcome) => {
                let names: Vec<String> = summary.iter().map(|(id, _)| id.to_string()).collect();
                let told = plugin.summary(&metrics(&summary, &names));
                (told.and_then(|()| plugin.finish(outcome)), true)
            }
        };
        if let Err(fault) = result {
            progress.close(fault);
        }
        if last || progress.fault().is_some() {
            return;
        }
    }
}

/// Counts the messages that the sink took.
fn counted(count: &AtomicU64, result: Result<(), Diagnostic>) -> Result<(), Diagnostic> {
    count.fetch_add(u64::from(result.is_ok()), Ordering::Release);
    result
}

/// Writes a row, then its distributions, as far as the filter selects them.
fn write(plugin: &mut SinkPlugin, filter: &mut Filter, row: &Row) -> Result<(), Diagnostic> {
    let (record, names) = (&row.record, row.names());
    let values = record.values.iter().zip(&names.values);
    let values = values.filter(|((id, _), name)| filter.takes_at(record.step, id, name));
    let values: Vec<Metric<'_>> = values.map(|((id, value), name)| metric(id, name, *value)).collect();
    plugin.log(record.step, &values)?;
    if !filter.takes_layers_at(record.step) {
        return Ok(());
    }
    let histograms = record.histograms.iter().zip(&names.histograms);
    histograms.filter(|(_, name)| filter.takes(name)).try_for_each(|(histogram, name)| {
        plugin.histogram(
            record.step,
            &Histogram {
                name: name.as_str().into(),
                edges: RSlice::from_slice(&histogram.edges),
                counts: RSlice::from_slice(&histogram.counts),
            },
        )
    })
}

fn open(
    plugin: &mut SinkPlugin,
    filter: &mut Filter,
    (index, facts): (usize, &RunFacts),
) -> Result<Option<String>, Diagnostic> {
    let resume = facts.resume.as_ref();
    let state = resume.and_then(|resume| Some(&*resume.sinks.get(index)?.state)).unwrap_or_default();
    let names: Vec<String> = facts.metrics.iter().map(ToString::to_string).collect();
    let named = facts.metrics.iter().zip(&names).filter(|(_, name)| filter.takes(name));
    let names: Vec<ApiName<'_>> = named.map(|(id, name)| api_name(id, name)).collect();
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

fn metrics<'a>(values: &[(MetricId, f64)], names: &'a [String]) -> Vec<Metric<'a>> {
    values.iter().zip(names).map(|((id, value), name)| metric(id, name, *value)).collect()
}

fn metric<'a>(id: &MetricId, name: &'a str, value: f64) -> Metric<'a> {
    Metric { name: api_name(id, name), value }
}

fn api_name<'a>(id: &MetricId, name: &'a str) -> ApiName<'a> {
    ApiName { name: name.into(), timing: id.definition().kind == MetricKind::Timing }
}
