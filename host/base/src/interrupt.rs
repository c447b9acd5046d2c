//! Signals. The first Ctrl-C, SIGTERM or SIGHUP ends the run cleanly, the second ends the process. SIGUSR1 requests a
//! checkpoint. Signals that the process inherits as ignored stay ignored.
//!
//! Another program that started a run can also request its end by closing the run's standard input, which happens even
//! if that program is killed. The supervising process of a run forwards signals as [`FORWARDED`]: a signal to a whole
//! group of processes arrives twice then, once directly and once forwarded, and still counts once.

use crate::eprintln;
use std::{
    fs, io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
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
/// Signals within this time after the first are the same request: `timeout` signals its command and then the group of
/// processes, and a terminal that is closed sends SIGHUP twice.
const ONE_REQUEST: Duration = Duration::from_secs(1);

static REQUESTED: AtomicBool = AtomicBool::new(false);
static CHECKPOINT: AtomicBool = AtomicBool::new(false);

/// Handles requests to end the process from now on. Call it once per process.
///
/// # Errors
/// The operating system refused.
pub fn install() -> Result<(), Diagnostic> {
    listen(&ending_signals(), || ())
}

/// [`install`] for a training process, which also receives forwarded signals and SIGUSR1. A repeated request sets
/// `at_once`, then ends the process.
///
/// # Errors
/// The operating system refused.
pub fn install_for_training(at_once: &'static AtomicBool) -> Result<(), Diagnostic> {
    let signals = [ending_signals(), vec![SIGUSR1, FORWARDED]].concat();
    listen(&signals, move || at_once.store(true, Ordering::Release))
}

/// The signals that request the end of the process, without those that it ignores: `nohup` makes it ignore SIGHUP, and
/// a shell script SIGINT in the background.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The signals that a process ignores, from its `/proc/PID/status`: bit N - 1 is signal N.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn listen(signals: &[i32], at_once: impl Fn() + Send + 'static) -> Result<(), Diagnostic> {
    // Only signals count towards stopping at once: input ends only once.
    let mut requests = Requests::default();
    hear(signals, move |signal| match signal {
        SIGUSR1 => ask_for_checkpoint(),
        _ => end(requests.count(signal == FORWARDED, Instant::now()), &at_once),
    })
}

/// Counts requests to end the run.
#[derive(Debug, Default)]
struct Requests {
    first: Option<Instant>,
    direct: u32,
    forwarded: u32,
}

impl Requests {
    /// The number of requests up to this signal: a request may arrive directly, forwarded or both ways, and repeatedly
    /// in [`ONE_REQUEST`].
    fn count(&mut self, is_forwarded: bool, now: Instant) -> u32 {
        let is_first = now.duration_since(*self.first.get_or_insert(now)) < ONE_REQUEST;
        let count = if is_forwarded { &mut self.forwarded } else { &mut self.direct };
        *count = if is_first { 1 } else { *count + 1 };
        self.direct.max(self.forwarded)
    }
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
fn end(times: u32, at_once: &impl Fn()) {
    let first = !REQUESTED.swap(true, Ordering::SeqCst);
    if times > 1 {
        at_once();
        exit();
    }
    if first {
        eprintln!("interrupted: finishing this step; press Ctrl-C again to stop at once");
    }
}

/// Lets the first signal end the process, with [`EXIT_CODE`], after temporary files are removed: for commands without
/// state to save. Called once per process, in place of [`install`].
///
/// # Errors
/// The operating system refused.
pub fn end_at_once() -> Result<(), Diagnostic> {
    hear(&ending_signals(), |_| exit())
}

/// Ends the process without destructors and exit handlers: other threads still work, and compilers of kernels crash if
/// their memory is freed meanwhile.
fn exit() -> ! {
    let _held = scratch::clean_up();
    signal_hook::low_level::exit(i32::from(EXIT_CODE));
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

/// True if a checkpoint was requested since the last call.
#[must_use]
pub fn checkpoint_requested() -> bool {
    CHECKPOINT.swap(false, Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of requests after each signal: its time in ms, and whether it was forwarded.
    fn counted(signals: &[(u64, bool)]) -> Vec<u32> {
        let (mut requests, begun) = (Requests::default(), Instant::now());
        let count = |(ms, is_forwarded): &(u64, bool)| {
            requests.count(*is_forwarded, begun + Duration::from_millis(*ms))
        };
        signals.iter().map(count).collect()
    }

    #[test]
    fn signals_of_one_request_count_once_and_later_ones_again() {
        // `timeout`: its command and then its group, of two processes.
        assert_eq!(counted(&[(0, true), (1, false), (2, true), (3, true)]), [1, 1, 1, 1]);
        assert_eq!(counted(&[(0, false), (999, false), (1000, false)]), [1, 1, 2]);
        // Ctrl-C twice, in a terminal; the supervising process is late.
        assert_eq!(counted(&[(0, false), (1200, true), (2500, false), (2501, true)]), [1, 1, 2, 2]);
        assert_eq!(counted(&[(0, true), (3000, true)]), [1, 2]);
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let nohup = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000440\n";
        assert_eq!(ignored(nohup), 1 << (SIGHUP - 1) | 1 << 12);
        assert_eq!(ignored(""), 0);
    }
}
