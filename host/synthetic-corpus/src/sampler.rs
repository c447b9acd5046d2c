//! Integer random draws for the generator.
//!
//! Guarantees that every draw is a function of the generator's 32-bit words by integer arithmetic
//! alone, so that platforms and library versions agree. The reduction to a range is written out
//! here, because the sampling code of `rand` may change between versions.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The random source of one act.
#[derive(Debug)]
pub(super) struct Sampler {
    rng: ChaCha8Rng,
}

impl Sampler {
    /// Opens the stream `index` of the generator keyed by `seed`.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        Self { rng }
    }

    /// Draws from `0..bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The high half of the product is uniform to within bound / 2^32, ample for picking phrases.
        ((u64::from(self.rng.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// Draws from `low..=high`.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `percent` cases out of a hundred.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Draws an index into a list of `len` items; 0 if there are none.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.below(u32::try_from(len).unwrap_or(u32::MAX)) as usize
    }

    /// Draws one phrase; the empty phrase from an empty table.
    pub(super) fn pick(&mut self, table: &[&'static str]) -> &'static str {
        let index = self.index(table.len());
        table.get(index).copied().unwrap_or("")
    }

    /// Draws up to `count` distinct phrases, in a random order.
    pub(super) fn several(&mut self, table: &[&'static str], count: usize) -> Vec<&'static str> {
        let mut deck = table.to_vec();
        self.shuffle(&mut deck);
        deck.truncate(count);
        deck
    }

    /// Puts `items` in a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}
