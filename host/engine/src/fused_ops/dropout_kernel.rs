//! Dropout masks on GPUs: the numbers that the host draws, from the words of ChaCha8 ("ChaCha, a variant of Salsa20",
//! Bernstein 2008) as `rand_chacha` orders them. A unit computes blocks of 16 words.

use altgrad_base::random::{MASK_BITS, Stream};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::device::{DeviceFunction, apply};
use crate::{
    cube_parts::{UNITS, elements},
    host_words::micro_batch_words,
    tensor::untracked,
};

/// "expand 32-byte k", the constants of a block.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
/// Words of a block.
const WORDS: usize = 16;
/// Rounds on columns and on diagonals each.
const DOUBLE_ROUNDS: usize = 4;
/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;

/// A mask of zeros and factors.
#[derive(Debug, Clone)]
pub struct DropoutMask {
    /// Its shape.
    pub shape: Shape,
    /// The run's seed.
    pub seed: u64,
    /// The step's first micro-batch. Recorded launches read that of the step at which they are replayed.
    pub first: u64,
    /// The number of the micro-batch within the step.
    pub index: u32,
    /// The number of the mask within the micro-batch.
    pub number: u32,
    /// Words below it give zeros.
    pub threshold: u32,
    /// The other elements.
    pub keep: f32,
}

impl DropoutMask {
    /// The mask, on the device of a tensor.
    pub fn draw<const D: usize, const E: usize>(self, beside: &Tensor<E>) -> Tensor<D> {
        let mask = apply(untracked(beside.clone()), [None, None], self);
        if beside.device().is_autodiff() { Tensor::from_inner(mask) } else { mask }
    }
}

impl DeviceFunction for DropoutMask {
    fn inputs(&self) -> usize {
        0
    }

    fn shapes(&self, _: [&Shape; 3]) -> [Shape; 2] {
        [self.shape.clone(), Shape::from([1])]
    }

    fn forward(&self, _: [CubeTensor; 3], [mask, _]: [CubeTensor; 2], _: bool) {
        let count = elements(&mask);
        let cubes = (count as usize).div_ceil(WORDS * UNITS as usize).min(MAX_CUBES);
        draw::launch(
            &mask.client.clone(),
            CubeCount::new_1d(cubes as u32),
            CubeDim::new_1d(UNITS),
            micro_batch_words(&mask.device, self.first).into_buffer_arg(),
            mask.into_buffer_arg(),
            count,
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.index,
            self.number,
            self.threshold,
            self.keep,
        );
    }

    /// A mask depends on nothing.
    fn backward(&self, _: [CubeTensor; 3], _: CubeTensor, _: CubeTensor, _: [CubeTensor; 3]) {}
}

/// `first` are the words of the step's first micro-batch behind that of the step: lower, upper.
#[cube(launch)]
fn draw(
    first: &[f32],
    to: &mut [f32],
    elements: u32,
    seed_low: u32,
    seed_high: u32,
    index: u32,
    number: u32,
    threshold: u32,
    keep: f32,
) {
    let low = u32::reinterpret(first[1]) + index;
    let high = u32::reinterpret(first[2]) + u32::cast_from(low < index);
    let counter_low = (low << MASK_BITS) + number;
    let counter_high = (high << MASK_BITS) | (low >> comptime!(32 - MASK_BITS));
    let blocks = elements.div_ceil(comptime!(WORDS as u32));
    let mut block = ABSOLUTE_POS as u32;
    while block < blocks {
        let mut start = Array::<u32>::new(WORDS);
        #[unroll]
        for word in 0..4usize {
            start[word] = comptime!(CONSTANTS[word]).runtime();
        }
        start[4] = seed_low;
        start[5] = seed_high;
        start[6] = comptime!(Stream::Dropout as u32).runtime();
        start[7] = 0u32;
        start[8] = counter_low;
        start[9] = counter_high;
        #[unroll]
        for word in 10..WORDS {
            start[word] = 0u32;
        }
        start[12] = block;
        let mut state = Array::<u32>::new(WORDS);
        #[unroll]
        for word in 0..WORDS {
            state[word] = start[word];
        }
        for _ in 0..DOUBLE_ROUNDS {
            #[unroll]
            for column in 0..4usize {
                quarter_round(&mut state, column, 4 + column, 8 + column, 12 + column);
            }
            #[unroll]
            for column in 0..4usize {
                quarter_round(
                    &mut state,
                    column,
                    comptime!(4 + (column + 1) % 4),
                    comptime!(8 + (column + 2) % 4),
                    comptime!(12 + (column + 3) % 4),
                );
            }
        }
        #[unroll]
        for word in 0..WORDS {
            let at = block * comptime!(WORDS as u32) + comptime!(word as u32);
            if at < elements {
                to[at as usize] = select(state[word] + start[word] < threshold, 0.0f32, keep);
            }
        }
        block += CUBE_COUNT as u32 * UNITS;
    }
}

#[cube]
fn quarter_round(
    x: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    x[a] += x[b];
    x[d] = rotated(x[d] ^ x[a], 16u32);
    x[c] += x[d];
    x[b] = rotated(x[b] ^ x[c], 12u32);
    x[a] += x[b];
    x[d] = rotated(x[d] ^ x[a], 8u32);
    x[c] += x[d];
    x[b] = rotated(x[b] ^ x[c], 7u32);
}

/// A word rotated to the left.
#[cube]
fn rotated(x: u32, #[comptime] bits: u32) -> u32 {
    (x << bits) | (x >> comptime!(32 - bits))
}
