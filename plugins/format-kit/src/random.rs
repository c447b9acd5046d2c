//! Random bits of stochastic rounding, many at once: [`altgrad_plugin_api::random`] defines the bits of an element.

use std::array::from_fn;

use altgrad_plugin_api::RandomKey;
pub use altgrad_plugin_api::random::philox;
use altgrad_plugin_api::random::{WORDS, blocks};
use multiversion::multiversion;

/// Blocks computed side by side, a register of 64-bit products and more: while one multiplication waits, others
/// continue.
const LANES: usize = 32;

/// Writes the words of elements `key.offset + first ..` of the key's tensor, one each.
///
/// Shapes: `words` `[n]`. Step and tensor are taken modulo 2^32.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub fn fill(key: &RandomKey, first: u64, words: &mut [u32]) {
    fill_inline(key, first, words);
}

/// [`fill`], inlined.
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

#[cfg(test)]
mod tests {
    use super::*;

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
