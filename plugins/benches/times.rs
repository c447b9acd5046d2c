//! What the benchmarks of the kits share: times, their medians, and the copy they are compared with.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use rayon::{ThreadPool, prelude::*};

pub fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

/// Milliseconds: the median, and the minimum, which a busy machine disturbs least.
pub fn median_and_least(times: &mut [Duration]) -> [f64; 2] {
    times.sort();
    [times[times.len() / 2], times[0]].map(|time| time.as_secs_f64() * 1e3)
}

/// One `copy_from_slice` per thread.
pub fn copy(pool: &ThreadPool, from: &[f32], to: &mut [f32]) {
    let share = from.len().div_ceil(pool.current_num_threads());
    pool.install(|| {
        from.par_chunks(share).zip(to.par_chunks_mut(share)).for_each(|(from, to)| to.copy_from_slice(from));
    });
}
