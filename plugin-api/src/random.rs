//! Counter-based random bits: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//!
//! One 32-bit word per element, a pure function of seed, step, tensor and the element's index. There is no state, so
//! any split of a tensor, any device and a resumed run get the same bits. Not cryptographic.
//!
//! Element `i` of a tensor takes word `i % 4` of block `i / 4`, with
//! counter `[block low, block high, step, tensor]` and key `[seed low, seed high]`.

use std::array::from_fn;

use crate::RandomKey;

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// Words in a block.
pub const WORDS: usize = 4;

/// Philox4x32-10 of `L` counters under one key: `counter[word][lane]` to random words in the same places.
#[inline(always)]
#[must_use]
pub fn philox<const L: usize>(counter: [[u32; L]; WORDS], key: [u32; 2]) -> [[u32; L]; WORDS] {
    // Each word is the lower half of 64 bits, where multiplication needs it; the upper half has no influence.
    let wide = |word: usize| from_fn(|lane| u64::from(counter[word][lane]));
    let [mut c0, mut c1, mut c2, mut c3]: [[u64; L]; WORDS] = [wide(0), wide(1), wide(2), wide(3)];
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        for lane in 0..L {
            let p0 = u64::from(c0[lane] as u32) * u64::from(MULTIPLIERS[0]);
            let p1 = u64::from(c2[lane] as u32) * u64::from(MULTIPLIERS[1]);
            c0[lane] = (p1 >> 32) ^ c1[lane] ^ u64::from(k0);
            c2[lane] = (p0 >> 32) ^ c3[lane] ^ u64::from(k1);
            c1[lane] = p1;
            c3[lane] = p0;
        }
        k0 = k0.wrapping_add(KEY_STEPS[0]);
        k1 = k1.wrapping_add(KEY_STEPS[1]);
    }
    let lower = |words: [u64; L]| from_fn(|lane| words[lane] as u32);
    [lower(c0), lower(c1), lower(c2), lower(c3)]
}

/// `L` successive blocks of a tensor's words: `[word][block]`. Step and tensor are taken modulo 2^32.
#[inline(always)]
#[must_use]
pub fn blocks<const L: usize>(key: &RandomKey, first: u64) -> [[u32; L]; WORDS] {
    let block = |lane: usize| first.wrapping_add(lane as u64);
    let counter = [
        from_fn(|lane| block(lane) as u32),
        from_fn(|lane| (block(lane) >> 32) as u32),
        [key.step as u32; L],
        [key.tensor as u32; L],
    ];
    philox(counter, [key.seed as u32, (key.seed >> 32) as u32])
}

/// The words of elements `key.offset ..` of the key's tensor, one each, without end.
#[derive(Debug, Clone)]
pub struct Words {
    key: RandomKey,
    next: u64,
    block: [[u32; 1]; WORDS],
}

impl Words {
    /// The words that `key` names.
    #[must_use]
    pub fn new(key: &RandomKey) -> Self {
        Self { key: *key, next: key.offset, block: blocks(key, key.offset / WORDS as u64) }
    }
}

impl Iterator for Words {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let place = (self.next % WORDS as u64) as usize;
        if place == 0 {
            self.block = blocks(&self.key, self.next / WORDS as u64);
        }
        self.next = self.next.wrapping_add(1);
        Some(self.block[place][0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of kat_vectors in Random123 1.14 (`philox4x32 10`): counter, key, result.
    #[test]
    fn known_answers_of_random123() {
        let ones = u32::MAX;
        let rows = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in rows {
            assert_eq!(philox(counter.map(|word| [word]), key).map(|[word]| word), expected);
        }
    }

    #[test]
    fn words_are_the_documented_function_of_key_and_index() {
        let offset = (7u64 << 34) - 5;
        let key = RandomKey { seed: 0x0123_4567_89ab_cdef, step: 12, tensor: 34, offset };
        for (i, word) in Words::new(&key).take(100).enumerate() {
            let index = offset + i as u64;
            let block = index / 4;
            let counter = [block as u32, (block >> 32) as u32, 12, 34];
            let expected = philox(counter.map(|word| [word]), [0x89ab_cdef, 0x0123_4567]);
            assert_eq!(word, expected[(index % 4) as usize][0], "element {index}");
        }
    }
}
