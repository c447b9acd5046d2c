//! Independent random streams, each addressed by a counter.
//!
//! Every use of randomness has a stream of its own, derived from the run's seed (evaluation windows from a fixed one).
//! A draw is addressed by its purpose (step, batch, parameter) and never by the number of earlier draws. Evaluation,
//! metrics and sinks therefore do not change the training's randomness, and a resumed run repeats the draws of the
//! uninterrupted run.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The purpose of a random number. The numbers define the meaning of a seed: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Initial weights; counter: index of the parameter.
    Init = 1,
    /// Training batches; counter: index of the micro-batch within the run.
    DataOrder = 2,
    /// Evaluation windows, with one seed for all runs; counter: index of the batch within an evaluation.
    Evaluation = 3,
    /// Dropout masks; counter: index of the micro-batch, then of the mask within it.
    Dropout = 4,
    /// Text sampling; counter: index of the sample.
    Sampling = 5,
    /// Directions in which curvature is measured; counter: index of the direction.
    Curvature = 6,
}

/// Bits of a dropout mask's number within its micro-batch, the lowest ones of its counter.
pub const MASK_BITS: u32 = 16;

/// The generator at `counter` of a stream: seed, stream and counter together are its key, so no two
/// generators share a sequence however much is drawn.
#[must_use]
pub fn at(seed: u64, stream: Stream, counter: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (part, value) in key.chunks_exact_mut(8).zip([seed, stream as u64, counter]) {
        part.copy_from_slice(&value.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn streams_and_counters_are_independent_and_repeatable() {
        let draw = |seed, stream, counter| -> u64 { at(seed, stream, counter).random() };
        let first = draw(1, Stream::Init, 0);
        assert_eq!(first, draw(1, Stream::Init, 0));
        assert_ne!(first, draw(2, Stream::Init, 0));
        assert_ne!(first, draw(1, Stream::DataOrder, 0));
        assert_ne!(first, draw(1, Stream::Init, 1));
    }

    #[test]
    fn a_long_draw_never_reaches_the_next_counter() {
        let start: u64 = at(1, Stream::Init, 1).random();
        let mut long = at(1, Stream::Init, 0);
        // More than the largest parameter of GPT-2 draws; a chance hit has a probability of 1e-12.
        assert!((0..50_000_000u32).all(|_| long.random::<u64>() != start));
    }
}
