//! Work on an array divided among threads.
//!
//! Threads run for one call. A pool would not survive `fork`, after which a process has only the thread that forked.

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use pyo3::prelude::*;

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
pub(crate) fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

/// Calls `work` with the first element, source and target of every part, and returns its results in the order of the parts.
///
/// # Errors
/// The first error of `work`, by part.
pub(crate) fn map<S: Sync, T: Send, R: Send, E: Send>(
    source: &[S],
    target: &mut [T],
    work: impl Fn(usize, &[S], &mut [T]) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let mut parts: Vec<_> = source
        .chunks(PART)
        .zip(target.chunks_mut(PART))
        .enumerate()
        .map(|(index, (source, target))| (index * PART, source, target))
        .collect();
    let threads = threads().min(parts.len() / PARTS_A_THREAD).max(1);
    let share = parts.len().div_ceil(threads).max(1);
    let work = &work;
    let one = move |parts: &mut [(usize, &[S], &mut [T])]| -> Result<Vec<R>, E> {
        parts.iter_mut().map(|(first, source, target)| work(*first, source, target)).collect()
    };
    let own = share.min(parts.len());
    let (own, others) = parts.split_at_mut(own);
    thread::scope(|scope| {
        let started: Vec<_> = others.chunks_mut(share).map(|parts| scope.spawn(move || one(parts))).collect();
        let mut results = one(own)?;
        for thread in started {
            match thread.join() {
                Ok(more) => results.extend(more?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    })
}
