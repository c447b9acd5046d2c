//! The supervising process: waits for the training process, forwards signals, and checks that plugin calls return.

use std::{
    io::{IsTerminal, stderr},
    os::fd::AsFd,
    process::ExitCode,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use altgrad_base::{eprintln, interrupt};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::{EVENTS, Event, EventLog};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getppid},
};

use super::{
    Asked,
    ending::{self, Killed},
    shared::Shared,
    watchdog::{Watchdog, WatchdogAction},
};

/// The time for a run to end with a checkpoint after the process that started it is gone.
const GRACE: Duration = Duration::from_secs(30);

/// Messages to the supervising process.
pub(super) fn signals() -> SigSet {
    let ending = interrupt::ending_signals().into_iter().filter_map(|signal| Signal::try_from(signal).ok());
    ending.chain([Signal::SIGUSR1, Signal::SIGCHLD]).collect()
}

/// The supervising process.
pub(super) struct Parent {
    child: Pid,
    shared: &'static Shared,
    asked: Asked,
    /// The process that started the run, and the time when it was found gone.
    starter: (Pid, Option<Instant>),
    watchdog: Watchdog,
    /// The reason why this process killed the other, if it did.
    killed: Option<Killed>,
}

impl Parent {
    pub fn new(child: Pid, shared: &'static Shared, asked: Asked, starter: Pid) -> Self {
        Self { child, shared, asked, starter: (starter, None), watchdog: Watchdog::default(), killed: None }
    }

    /// Waits until the training process has ended, and completes its work.
    pub fn watch(mut self, signals: &SigSet) -> ExitCode {
        let heard = SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        loop {
            match waitpid(self.child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
                Ok(status) => return ending::close(status, self.shared, self.asked, self.killed.take()),
                Err(error) => {
                    eprintln!("error: the run's process cannot be watched ({error})");
                    return ExitCode::FAILURE;
                }
            }
            let tick = self.watchdog.tick(self.shared);
            match &heard {
                Ok(heard) => {
                    let timeout = PollTimeout::try_from(tick).unwrap_or(PollTimeout::MAX);
                    let _ = poll(&mut [PollFd::new(heard.as_fd(), PollFlags::POLLIN)], timeout);
                    while let Ok(Some(signal)) = heard.read_signal() {
                        self.pass_on(signal.ssi_signo);
                    }
                }
                // Signals stay unheard, but the end is not missed.
                Err(_) => std::thread::sleep(tick.min(Duration::from_millis(20))),
            }
            self.look_after_starter();
            self.look_after_calls();
        }
    }

    /// Passes a signal on. Before the other process listens, an end is an end at once and there is nothing to keep.
    fn pass_on(&self, signal: u32) {
        let Ok(signal) = i32::try_from(signal).map_err(|_| Errno::EINVAL).and_then(Signal::try_from) else {
            return;
        };
        let listens = self.shared.listens.load(Ordering::Acquire);
        let passed = match signal {
            Signal::SIGCHLD => return,
            Signal::SIGUSR1 if listens => Some(Signal::SIGUSR1),
            Signal::SIGUSR1 => None,
            _ if listens => Signal::try_from(interrupt::FORWARDED).ok(),
            other => Some(other),
        };
        if let Some(passed) = passed {
            // It may have ended just now.
            let _ = kill(self.child, passed);
        }
    }

    /// A run that another program started ends with it: by itself, with a checkpoint, or after a grace.
    fn look_after_starter(&mut self) {
        if !self.asked.with_starter || getppid() == self.starter.0 {
            return;
        }
        let gone = *self.starter.1.get_or_insert_with(Instant::now);
        if gone.elapsed() >= GRACE {
            self.kill(Killed::Orphaned(GRACE));
        }
    }

    fn look_after_calls(&mut self) {
        match self.watchdog.look(self.shared, self.child.as_raw()) {
            Some(WatchdogAction::Warn(mark, after)) => {
                let text = format!("{} has not returned for {after:?}", self.shared.calls.description(mark));
                // Below a progress bar, if there is one.
                let line = if stderr().is_terminal() { "\n" } else { "" };
                eprintln!("{line}warning: {text}");
                if let Some(claim) = self.shared.claimed() {
                    let step = self.shared.progress().step;
                    let event = Event::new(step, AlertLevel::WARN, "plugin_call", text);
                    EventLog::open(claim.path.join(EVENTS)).write(&event);
                }
            }
            Some(WatchdogAction::End(mark, after)) => self.kill(Killed::Stuck(mark, after)),
            None => {}
        }
    }

    fn kill(&mut self, why: Killed) {
        if self.killed.is_none() {
            self.killed = Some(why);
            let _ = kill(self.child, Signal::SIGKILL);
        }
    }
}
