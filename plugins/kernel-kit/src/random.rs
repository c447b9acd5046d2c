//! Counter-based random bits on the device: Philox4x32-10 (Salmon et al., SC'11), one word per element.
//!
//! The same function of seed, step, tensor and element index as the CPU's, so both round alike: element `i` of a
//! tensor takes word `i % 4` of block `i / 4`, counter `[block low, block high, step, tensor]`, key
//! `[seed low, seed high]`.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

const ROUNDS: u32 = 10;

/// Names a tensor's random words; 64-bit numbers as two words, for WGSL has no larger integers.
#[derive(CubeType, Clone, Copy)]
pub struct Key {
    pub seed_low: u32,
    pub seed_high: u32,
    pub step: u32,
    pub tensor: u32,
    pub offset_low: u32,
    pub offset_high: u32,
}

/// The words of the `N` elements from `N * position` on. `N` is 1, or 4 and the key's offset a multiple of 4.
#[cube]
pub fn words<N: Size>(position: u32, key: &Key) -> Vector<u32, N> {
    let size = N::value();
    let low = key.offset_low + position * comptime!(size as u32);
    let high = key.offset_high + u32::cast_from(low < key.offset_low);
    let block = philox((low >> 2u32) | (high << 30u32), high >> 2u32, key);
    let mut words = Vector::<u32, N>::empty();
    if comptime!(size == 4) {
        words.insert(0usize, block.w0);
        words.insert(1usize, block.w1);
        words.insert(2usize, block.w2);
        words.insert(3usize, block.w3);
    } else {
        let lane = low & 3u32;
        let first = select(lane == 0u32, block.w0, block.w1);
        let last = select(lane == 2u32, block.w2, block.w3);
        words.insert(0usize, select(lane < 2u32, first, last));
    }
    words
}

#[derive(CubeType, Clone, Copy)]
struct Block {
    w0: u32,
    w1: u32,
    w2: u32,
    w3: u32,
}

#[cube]
fn philox(block_low: u32, block_high: u32, key: &Key) -> Block {
    let mut c0 = block_low;
    let mut c1 = block_high;
    let mut c2 = key.step;
    let mut c3 = key.tensor;
    let mut k0 = key.seed_low;
    let mut k1 = key.seed_high;
    for _ in 0..ROUNDS {
        let p0 = c0 * 0xd251_1f53u32;
        let p1 = c2 * 0xcd9e_8d57u32;
        let h0 = c0.mul_hi(0xd251_1f53u32);
        let h1 = c2.mul_hi(0xcd9e_8d57u32);
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += 0x9e37_79b9u32;
        k1 += 0xbb67_ae85u32;
    }
    Block { w0: c0, w1: c1, w2: c2, w3: c3 }
}
