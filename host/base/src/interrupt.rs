//! Signals. The first Ctrl-C, SIGTERM or SIGHUP ends the run cleanly, the second ends the process. SIGUSR1 requests a checkpoint.
//!
//! Another program that started a run can also request its end by closing the run's standard input, which happens even if that
//! program is killed. The supervising process of a run forwards signals as [`FORWARDED`]: a signal to a whole group of processes
//! arrives twice then, once directly and once forwarded, and still counts once.

use crate::eprintln;
use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
};

use crate::{diagnostic::Diagnostic, scratch};

/// Exit code of an interrupted run.
pub const EXIT_CODE: u8 = 130;
/// The signal by which the supervising process ends a training process.
pub const FORWARDED: i32 = SIGUSR2;
/// Signals that request the end of the process.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

static REQUESTED: AtomicBool = AtomicBool::new(false);
static AT_ONCE: AtomicBool = AtomicBool::new(false);
static CHECKPOINT: AtomicBool = AtomicBool::new(false);

/// Handles requests to end the process from now on. Call it once per process.
///
/// # Errors
/// The operating system refused.
pub fn install() -> Result<(), Diagnostic> {
    listen(&ENDING)
}

/// [`install`] for a training process, which also receives forwarded signals and SIGUSR1.
///
/// # Errors
/// The operating system refused.
pub fn install_for_training() -> Result<(), Diagnostic> {
    listen(&[SIGINT, SIGTERM, SIGHUP, SIGUSR1, FORWARDED])
}

fn listen(signals: &[i32]) -> Result<(), Diagnostic> {
    // Only signals count towards stopping at once: their sender repeats them on purpose.
    let (mut direct, mut forwarded) = (0, 0);
    hear(signals, move |signal| {
        match signal {
            SIGUSR1 => return ask_for_checkpoint(),
            FORWARDED => forwarded += 1,
            _ => direct += 1,
        }
        end(direct.max(forwarded));
    })
}

/// Calls `does` for each signal, on a thread of its own.
fn hear(signals: &[i32], mut does: impl FnMut(i32) + Send + 'static) -> Result<(), Diagnostic> {
    let failed = |error| Diagnostic::run(format!("cannot listen to signals ({error})"));
    let mut signals = Signals::new(signals).map_err(failed)?;
    let listen = move || signals.forever().for_each(&mut does);
    thread::Builder::new().name("signals".into()).spawn(listen).map_err(failed)?;
    Ok(())
}

fn ask_for_checkpoint() {
    if !CHECKPOINT.swap(true, Ordering::SeqCst) {
        eprintln!("SIGUSR1: a checkpoint follows this step");
    }
}

/// Handles the `times`-th request to end the run.
fn end(times: u32) {
    let first = !REQUESTED.swap(true, Ordering::SeqCst);
    if times > 1 {
        AT_ONCE.store(true, Ordering::SeqCst);
        exit();
    }
    if first {
        eprintln!("interrupted: finishing this step; press Ctrl-C again to stop at once");
    }
}

/// Lets the first signal end the process, with [`EXIT_CODE`], after temporary files are removed: for commands without state to
/// save. Called once per process, in place of [`install`].
///
/// # Errors
/// The operating system refused.
pub fn end_at_once() -> Result<(), Diagnostic> {
    hear(&ENDING, |_| exit())
}

fn exit() -> ! {
    let _held = scratch::clean_up();
    std::process::exit(i32::from(EXIT_CODE));
}

/// From now on, the end of standard input ends the run cleanly.
pub fn at_end_of_input() {
    thread::spawn(|| {
        // An input that cannot be read has ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        REQUESTED.store(true, Ordering::SeqCst);
    });
}

/// True if the run should end after the current step.
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// True if a repeated request ends the process now.
#[must_use]
pub fn at_once() -> bool {
    AT_ONCE.load(Ordering::SeqCst)
}

/// True if a checkpoint was requested since the last call.
#[must_use]
pub fn checkpoint_requested() -> bool {
    CHECKPOINT.swap(false, Ordering::SeqCst)
}
