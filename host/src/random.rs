//! Independent random streams, each addressed by a counter.
//!
//! Every use of randomness has a stream of its own, derived from the run's seed; a draw is addressed by what
//! it is for (step, batch, parameter) and never by how many came before. So evaluation, metrics and sinks
//! cannot move the training's randomness, and a resumed run draws what the uninterrupted one would.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a random number is for. The numbers are part of what a seed means: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Initial weights; counter: index of the parameter.
    Init = 1,
    /// Training batches; counter: index of the micro-batch within the run.
    DataOrder = 2,
    /// Evaluation windows; counter: index of the batch within an evaluation.
    Evaluation = 3,
    /// Dropout masks; counter: index of the micro-batch, then of the mask within it.
    Dropout = 4,
    /// Text sampling; counter: index of the sample.
    Sampling = 5,
}

/// Each counter value owns 2^24 words of its stream.
const WORDS_BITS: u32 = 24;

/// The generator at `counter` of a stream. Good for 2^24 32-bit words.
#[must_use]
pub fn at(seed: u64, stream: Stream, counter: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(stream as u64);
    generator.set_word_pos(u128::from(counter) << WORDS_BITS);
    generator
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
}
