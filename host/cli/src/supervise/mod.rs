//! Supervision of a run: a small process starts the one that trains, and watches over it.
//!
//! [`split`] forks before there are threads. The training process records its activity in shared memory ([`shared`]),
//! and its handlers ([`ffi`]) name the plugin in whose call it ends. The supervising process ([`parent`]) forwards
//! signals, ends a run whose plugin call does not return ([`watchdog`]), and completes `run.json` when the training
//! process has ended ([`ending`]). If the supervising process is killed, the system kills the training process.

mod ending;
#[allow(unsafe_code)]
mod ffi;
mod parent;
mod shared;
mod watchdog;

use std::{process::ExitCode, sync::atomic::Ordering, time::Duration};

use altgrad_base::{diagnostic::Diagnostic, eprintln, interrupt};
use altgrad_config::LimitsSection;
use altgrad_engine::train::ProgressListener;
use altgrad_run_folder::{folder::RunFolder, record::Progress};
use nix::{
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal},
    },
    unistd::{Pid, getpid, getppid},
};

use shared::shared;

/// Options of the command line for the supervising process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// True if progress is JSON, including the final line.
    pub json: bool,
    /// True if the run ends when the process that started it is gone.
    pub with_starter: bool,
}

/// Splits the process in two. The one that trains returns, with nothing; the other watches over it and returns its exit
/// code. If the system refuses, the process continues alone and reports it.
pub(crate) fn split(asked: Asked) -> Option<ExitCode> {
    let alone = |error: &dyn std::fmt::Display| {
        eprintln!("warning: the run continues without supervision ({error})");
        None
    };
    let starter = getppid();
    let me = getpid();
    let signals = parent::signals();
    let before = match signals.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
        Ok(before) => before,
        Err(error) => return alone(&error),
    };
    match ffi::map().and_then(|shared| Ok((shared, ffi::fork()?))) {
        Ok((shared, Some(child))) => {
            Some(parent::Parent::new(Pid::from_raw(child), shared, asked, starter).watch(&signals))
        }
        Ok((shared, None)) => {
            shared::share(shared);
            begin_child(me, &before);
            None
        }
        Err(error) => {
            let _ = before.thread_set_mask();
            alone(&error)
        }
    }
}

/// The first that the process that trains does.
fn begin_child(parent: Pid, mask: &SigSet) {
    // Without it only the death of the supervising process is not noticed.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    if getppid() != parent {
        // It died before the line above.
        std::process::exit(1);
    }
    let _ = mask.thread_set_mask();
}

/// Prepares this process for faults of plugins.
pub(crate) fn prepare() {
    ffi::ignore_harmless_signals();
    ffi::install_handlers();
}

/// Records that this process ended by itself: the exit code is its own.
pub(crate) fn end() {
    shared().ended.store(true, Ordering::Release);
}

/// Handles requests to end the run from now on.
///
/// # Errors
/// The operating system refused.
pub(crate) fn listen() -> Result<(), Diagnostic> {
    interrupt::install_for_training(&shared().at_once)?;
    shared().listens.store(true, Ordering::Release);
    Ok(())
}

/// Says how long plugin calls may take.
pub(crate) fn limit(limits: &LimitsSection) {
    let seconds = [limits.plugin_call_warning_s, limits.plugin_call_timeout_s];
    for (limit, seconds) in shared().limits_ms.iter().zip(seconds) {
        // A limit below one millisecond does not mean "never".
        let ms = Duration::try_from_secs_f64(seconds).map_or(0, |limit| limit.as_millis().max(1));
        limit.store(if seconds > 0.0 { ms as u64 } else { 0 }, Ordering::Relaxed);
    }
}

/// A listener that also reports to the supervising process.
pub(crate) struct SharedProgress<'a>(pub &'a mut dyn ProgressListener);

impl ProgressListener for SharedProgress<'_> {
    fn claimed(&mut self, folder: &RunFolder) {
        shared().claim(folder.as_claim());
        self.0.claimed(folder);
    }

    fn begun(&mut self) {
        shared().begin();
        self.0.begun();
    }

    fn step(&mut self, progress: &Progress) {
        shared().tell(progress);
        self.0.step(progress);
    }

    fn say(&mut self, text: &str) {
        self.0.say(text);
    }

    fn mention(&mut self, text: &str) {
        self.0.mention(text);
    }

    fn finish(&mut self) {
        self.0.finish();
    }
}
