//! The state of a sink, and the counts of its messages.

use std::{
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
    pub(super) missing_from_step: Option<u64>,
}

impl Ledger {
    /// The counts of messages, by the sink's own report.
    pub(super) fn counts(&self, progress: &WorkerState) -> SinkCounts {
        let (rows, events) = (&progress.rows, &progress.events);
        // A snapshot: the sink may have taken more since.
        let taken = [(rows, self.rows), (events, self.events)]
            .map(|(taken, sent)| taken.load(Ordering::Acquire).min(sent.all));
        // Messages that still wait for a closed sink are lost as well.
        let closed = progress.fault().is_some();
        let missing = |sent: Sent, taken| if closed { sent.all - taken } else { sent.dropped };
        self.add(taken[0], missing(self.rows, taken[0]), missing(self.events, taken[1]))
    }

    /// The counts for a sink that has taken everything from its queue.
    pub(super) fn all_taken(&self) -> SinkCounts {
        self.add(self.rows.all - self.rows.dropped, self.rows.dropped, self.events.dropped)
    }

    fn add(&self, rows: u64, missing_rows: u64, missing_events: u64) -> SinkCounts {
        let earlier = &self.earlier;
        SinkCounts {
            rows: earlier.rows + rows,
            missing_rows: earlier.missing_rows + missing_rows,
            missing_events: earlier.missing_events + missing_events,
            missing_from_step: earlier.missing_from_step.or(self.missing_from_step),
            ..earlier.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_closes_the_sink() {
        let state = WorkerState::default();
        state.close_on_panic("csv", || ());
        assert!(state.fault().is_none());
        state.close_on_panic("csv", || panic!("as a fault of the host"));
        assert!(state.fault().is_some_and(|fault| fault.message.contains("sink `csv`")));
    }
}
