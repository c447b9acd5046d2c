//! Counter-based random bits: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//!
//! One 32-bit word an element, a pure function of seed, step, tensor and the element's index: no state, so any
//! split of a tensor, any device and a resumed run see the same bits. Not for secrets.
//!
//! Element `i` of a tensor takes word `i % 4` of block `i / 4`, with
//! counter `[block low, block high, step, tensor]` and key `[seed low, seed high]`.

use std::array::from_fn;

use altgrad_plugin_api::RandomKey;

use crate::simd;

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// Blocks computed side by side, a register of 64-bit products and more: while one multiplication waits, others go on.
const LANES: usize = 32;
/// Words in a block.
const WORDS: usize = 4;

/// Philox4x32-10 of `L` counters under one key: `counter[word][lane]` to random words in the same places.
#[inline(always)]
#[must_use]
pub fn philox<const L: usize>(counter: [[u32; L]; WORDS], key: [u32; 2]) -> [[u32; L]; WORDS] {
    // Each word is the lower half of 64 bits, where multiplication wants it; what is above it does not matter.
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

/// Writes the words of elements `key.offset + first ..` of the key's tensor, one each.
///
/// Shapes: `words` `[n]`. Step and tensor are taken modulo 2^32.
pub fn fill(key: &RandomKey, first: u64, words: &mut [u32]) {
    simd::fill(key, first, words);
}

/// [`fill`], where it stands.
#[inline(always)]
pub(crate) fn fill_inline(key: &RandomKey, first: u64, words: &mut [u32]) {
    let start = key.offset.wrapping_add(first);
    // The words before the first whole block belong to a block that began earlier.
    let head = ((4 - start % 4) % 4).min(words.len() as u64) as usize;
    let (before, aligned) = words.split_at_mut(head);
    if !before.is_empty() {
        let block = blocks::<1>(key, start / 4);
        for (i, word) in before.iter_mut().enumerate() {
            *word = block[(start % 4) as usize + i][0];
        }
    }
    let mut block = start.wrapping_add(head as u64) / 4;
    let (groups, rest) = aligned.as_chunks_mut::<{ WORDS * LANES }>();
    for group in groups {
        interleave(&blocks::<LANES>(key, block), group);
        block = block.wrapping_add(LANES as u64);
    }
    if !rest.is_empty() {
        let mut group = [0; WORDS * LANES];
        interleave(&blocks::<LANES>(key, block), &mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// Words in the order of elements, a register's worth of blocks at a time.
#[inline(always)]
fn interleave(random: &[[u32; LANES]; WORDS], words: &mut [u32; WORDS * LANES]) {
    let pair =
        |word: usize, lane: usize| u64::from(random[word][lane]) | (u64::from(random[word + 1][lane]) << 32);
    let (parts, _) = words.as_chunks_mut::<{ WORDS * 8 }>();
    for (part, words) in parts.iter_mut().enumerate() {
        let pairs: [u64; WORDS * 4] = from_fn(|i| pair(i % 2 * 2, part * 8 + i / 2));
        for (i, pair) in pairs.into_iter().enumerate() {
            words[2 * i] = pair as u32;
            words[2 * i + 1] = (pair >> 32) as u32;
        }
    }
}

/// `L` successive blocks: `[word][block]`.
#[inline(always)]
fn blocks<const L: usize>(key: &RandomKey, first: u64) -> [[u32; L]; WORDS] {
    let block = |lane: usize| first.wrapping_add(lane as u64);
    let counter = [
        from_fn(|lane| block(lane) as u32),
        from_fn(|lane| (block(lane) >> 32) as u32),
        [key.step as u32; L],
        [key.tensor as u32; L],
    ];
    philox(counter, [key.seed as u32, (key.seed >> 32) as u32])
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
    fn fill_is_the_documented_function_of_key_and_index() {
        let offset = (7u64 << 34) - 5;
        let key = RandomKey { seed: 0x0123_4567_89ab_cdef, step: 12, tensor: 34, offset };
        let mut words = [0; 100];
        fill(&key, 3, &mut words);
        for (i, &word) in words.iter().enumerate() {
            let index = offset + 3 + i as u64;
            let block = index / 4;
            let counter = [block as u32, (block >> 32) as u32, 12, 34];
            let expected = philox(counter.map(|word| [word]), [0x89ab_cdef, 0x0123_4567]);
            assert_eq!(word, expected[(index % 4) as usize][0], "element {index}");
        }
    }

    #[test]
    fn any_split_gives_the_same_words() {
        let key = RandomKey { seed: 1, step: 2, tensor: 3, offset: 0 };
        let mut whole = [0; 300];
        fill(&key, 0, &mut whole);
        for first in 0..300 {
            for len in [0, 1, 2, 3, 4, 5, 37, 300].map(|len: usize| len.min(300 - first)) {
                let mut part = vec![0; len];
                fill(&RandomKey { offset: first as u64, ..key }, 0, &mut part);
                assert_eq!(part, whole[first..first + len]);
            }
        }
    }
}
