//! The resources of a case: memory, counted by the allocator, and time, measured by another thread.

use std::{
    path::Path,
    process,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use peak_alloc::PeakAlloc;

use crate::TIME;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The resources that a case used.
#[derive(Debug)]
pub struct Used {
    /// Most bytes held at once, beyond those held before.
    pub bytes: usize,
    /// Time.
    pub time: Duration,
}

/// Runs a case. One that does not end within twice [`TIME`] ends the process: nothing gentler stops a loop.
pub fn measured(name: &str, scratch: &Path, case: impl FnOnce()) -> Used {
    let (done, ended) = mpsc::channel::<()>();
    let place = format!("{name}: a case does not end; its input: {}", scratch.display());
    let watch = thread::spawn(move || {
        if ended.recv_timeout(2 * TIME) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{place}");
            process::abort();
        }
    });
    MEMORY.reset_peak_usage();
    let (before, start) = (MEMORY.current_usage(), Instant::now());
    case();
    let used = Used { bytes: MEMORY.peak_usage().saturating_sub(before), time: start.elapsed() };
    drop(done);
    // A watch that was told has nothing else to do, so it ends at once.
    let _ = watch.join();
    used
}
