//! Work on an array divided among threads.
//!
//! Threads run for one call. A pool would not survive `fork`, after which a process has only the thread that forked.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use pyo3::{exceptions::PyValueError, prelude::*};

/// Elements of a part. Sums of statistics are added part by part, so that they do not depend on the number of threads.
pub(crate) const PART: usize = 1 << 15;
/// Parts for which a further thread is worth its start.
const PARTS_A_THREAD: usize = 4;

/// Threads of a call; 0: as many as the process may use.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The number of threads of a call.
#[pyfunction]
pub(crate) fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

/// Sets the number of threads of a call; 0: as many as the process may use.
#[pyfunction]
pub(crate) fn set_threads(threads: i64) -> PyResult<()> {
    let number = usize::try_from(threads)
        .map_err(|_| PyValueError::new_err(format!("threads must be 0 or more, found {threads}")))?;
    THREADS.store(number, Ordering::Relaxed);
    Ok(())
}

/// Calls `work` with the first element, source and target of every part, and returns its results in the order of the
/// parts.
///
/// # Errors
/// The first error of `work`, by part.
pub(crate) fn map<S: Sync, T: Send, R: Send, E: Send>(
    source: &[S],
    target: &mut [T],
    work: impl Fn(usize, &[S], &mut [T]) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = threads().min(source.len().div_ceil(PART) / PARTS_A_THREAD).max(1);
    // The parts that no thread has taken. They are taken in order, so that no error precedes the first that is found.
    let left = Mutex::new(source.chunks(PART).zip(target.chunks_mut(PART)).enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let share = || {
        let mut results = Vec::new();
        while let Some((index, (source, target))) = take() {
            let result = work(index * PART, source, target);
            let is_error = result.is_err();
            results.push((index, result));
            if is_error {
                break;
            }
        }
        results
    };
    let mut results = thread::scope(|scope| {
        // The parts of a thread that cannot be started are left to the others.
        let start = |_| thread::Builder::new().spawn_scoped(scope, share).ok();
        let started: Vec<_> = (1..threads).map_while(start).collect();
        let mut results = share();
        for thread in started {
            match thread.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
