//! The state that the sink's thread and the uploader share. Nobody holds the lock across a file or a request.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Both sides' news.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

/// The news.
#[derive(Debug)]
pub(crate) struct State {
    /// Length of the spool up to which it is written.
    pub committed: u64,
    /// Rows from this step on wait: a resumed run is about to repeat them.
    pub hold: u64,
    /// True if the uploader has nothing to do and must be notified of the next row.
    pub idle: bool,
    /// True if something should not wait for the next upload.
    pub urgent: bool,
    /// Set when the run has ended: until when to upload.
    pub finish_by: Option<Instant>,
    /// True if the uploader must stop at once.
    pub stop: bool,
    /// Set by the uploader when it will not do anything more.
    pub done: bool,
    pub report: Report,
}

impl Default for State {
    fn default() -> Self {
        Self {
            committed: 0,
            hold: u64::MAX,
            idle: false,
            urgent: false,
            finish_by: None,
            stop: false,
            done: false,
            report: Report::default(),
        }
    }
}

/// The result of the upload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Rows up to the last the server has acknowledged.
    pub acknowledged: u64,
    /// True if the server's run was made, or continued, from here.
    pub claimed: bool,
    /// True if nothing was left to send when the run had ended.
    pub complete: bool,
    /// The reason why nothing more is sent, if there is one.
    pub refused: Option<String>,
    /// The last failure that was not followed by a success.
    pub trouble: Option<String>,
    /// Rows that the server can no longer take, its steps being further.
    pub dropped: u64,
    /// Lines of the spool that cannot be read.
    pub damaged: u64,
    /// Alerts that the server refused.
    pub alerts_refused: u64,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More of the spool is written.
    pub(crate) fn commit(&self, len: u64) {
        let mut state = self.lock();
        state.committed = len;
        if state.idle {
            state.idle = false;
            self.wake.notify_all();
        }
    }

    /// Changes the state, and wakes the waiting threads.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.wake.notify_all();
    }

    /// Waits until `enough` accepts the state, at most so long.
    pub(crate) fn wait(&self, patience: Duration, enough: impl Fn(&State) -> bool) {
        let state = self.lock();
        // A poisoned lock counts as an early return: callers check again.
        drop(self.wake.wait_timeout_while(state, patience, |state| !enough(state)));
    }
}
