//! The state of a sink, and the counts of its messages.

use std::{
    collections::VecDeque,
    panic::{self, AssertUnwindSafe},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_run_folder::record::SinkCounts;

/// The state of a sink: set by its thread, and by threads whose wait for it timed out.
#[derive(Debug, Default)]
pub(super) struct WorkerState {
    /// The first reason why the sink is closed. A closed sink receives nothing, and no thread waits for it.
    closed: OnceLock<Diagnostic>,
    /// True if it missed a deadline: its thread may never end.
    pub(super) hangs: AtomicBool,
    /// Number of rows and events that it has passed on.
    pub(super) rows: AtomicU64,
    pub(super) events: AtomicU64,
}

impl WorkerState {
    /// Closes the sink; an earlier reason stays.
    pub(super) fn close(&self, fault: Diagnostic) {
        let _ = self.closed.set(fault);
    }

    /// Closes a sink that did not do `what` within `deadline`.
    pub(super) fn miss_deadline(&self, name: &str, what: &str, deadline: Duration) {
        self.hangs.store(true, Ordering::Release);
        let message = format!("sink `{name}` did not {what} within {deadline:?}");
        self.close(Diagnostic::run(message).hint("`deadline_s` in its [[sink]] gives it more time"));
    }

    /// Closes the sink if the host's own code panics in `serve`; a panic of the plugin is an error that it returns.
    pub(super) fn close_on_panic(&self, name: &str, serve: impl FnOnce()) {
        if panic::catch_unwind(AssertUnwindSafe(serve)).is_err() {
            self.close(Diagnostic::run(format!("the host panicked in the thread of sink `{name}`")));
        }
    }

    /// The reason why the sink is closed; `None` if it is open.
    pub(super) fn fault(&self) -> Option<&Diagnostic> {
        self.closed.get()
    }
}

/// The number of messages of a kind, and the number of dropped ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) all: u64,
    pub(super) dropped: u64,
}

/// The messages sent to a sink, and their fate before this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    pub(super) earlier: SinkCounts,
    pub(super) rows: Sent,
    pub(super) events: Sent,
    /// The step of the first message that was dropped.
    pub(super) dropped_from_step: Option<u64>,
    /// Steps of the messages in the queue, and of those that the sink took since the last look.
    queued: VecDeque<u64>,
    /// Messages that were taken out of it.
    taken: u64,
}

impl Ledger {
    /// After a part of the run with these counts.
    pub(super) fn after(earlier: SinkCounts) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// Records that a message of that step is in the queue.
    pub(super) fn queue(&mut self, step: u64, progress: &WorkerState) {
        let taken = progress.rows.load(Ordering::Acquire) + progress.events.load(Ordering::Acquire);
        self.queued.drain(..((taken - self.taken) as usize).min(self.queued.len()));
        self.taken = taken;
        self.queued.push_back(step);
    }

    /// Records that the last message is dropped instead.
    pub(super) fn unqueue(&mut self, step: u64) {
        self.queued.pop_back();
        self.dropped_from_step.get_or_insert(step);
    }

    /// The step of the first message that the sink did not take: of a closed sink, it may be in the queue.
    fn missing_from_step(&self, progress: &WorkerState) -> Option<u64> {
        let taken = progress.rows.load(Ordering::Acquire) + progress.events.load(Ordering::Acquire);
        let queued = self.queued.get((taken - self.taken) as usize).filter(|_| progress.fault().is_some());
        [queued.copied(), self.dropped_from_step].into_iter().flatten().min()
    }

    /// The counts of messages, by the sink's own report.
    pub(super) fn counts(&self, progress: &WorkerState) -> SinkCounts {
        let (rows, events) = (&progress.rows, &progress.events);
        // A snapshot: the sink may have taken more since.
        let taken = [(rows, self.rows), (events, self.events)]
            .map(|(taken, sent)| taken.load(Ordering::Acquire).min(sent.all));
        // Messages that still wait for a closed sink are lost as well.
        let closed = progress.fault().is_some();
        let missing = |sent: Sent, taken| if closed { sent.all - taken } else { sent.dropped };
        let missing = [missing(self.rows, taken[0]), missing(self.events, taken[1])];
        self.add(taken[0], missing, self.missing_from_step(progress))
    }

    /// The counts for a sink that has taken everything from its queue.
    pub(super) fn all_taken(&self) -> SinkCounts {
        let dropped = [self.rows.dropped, self.events.dropped];
        self.add(self.rows.all - self.rows.dropped, dropped, self.dropped_from_step)
    }

    fn add(&self, rows: u64, [missing_rows, missing_events]: [u64; 2], from_step: Option<u64>) -> SinkCounts {
        let earlier = &self.earlier;
        SinkCounts {
            rows: earlier.rows + rows,
            missing_rows: earlier.missing_rows + missing_rows,
            missing_events: earlier.missing_events + missing_events,
            missing_from_step: earlier.missing_from_step.or(from_step),
            ..earlier.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_that_is_missing_may_be_in_the_queue_of_a_closed_sink() {
        let (state, mut ledger) = (WorkerState::default(), Ledger::default());
        (0..4).for_each(|step| ledger.queue(step, &state));
        ledger.queue(4, &state);
        ledger.unqueue(4);
        ledger.rows = Sent { all: 5, dropped: 1 };
        state.rows.store(2, Ordering::Release);
        assert_eq!(ledger.counts(&state).missing_from_step, Some(4), "the others may still be taken");
        state.close(Diagnostic::run("it hangs"));
        let counts = ledger.counts(&state);
        assert_eq!((counts.missing_from_step, counts.rows, counts.missing_rows), (Some(2), 2, 3));
        ledger.queue(5, &state);
        assert_eq!(ledger.counts(&state).missing_from_step, Some(2), "after a look");
    }

    #[test]
    fn a_panic_of_the_thread_closes_the_sink() {
        let state = WorkerState::default();
        state.close_on_panic("csv", || ());
        assert!(state.fault().is_none());
        state.close_on_panic("csv", || panic!("as a fault of the host"));
        assert!(state.fault().is_some_and(|fault| fault.message.contains("sink `csv`")));
    }
}
