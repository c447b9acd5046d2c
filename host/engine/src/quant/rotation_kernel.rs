//! Hadamard transforms of the rows of a matrix in kernels: those of [`altgrad_casts::Hadamard`], bit for bit. Elements
//! are added in its order, and no product is part of a sum.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_casts::{SIGNS_OFFSET, Signs};
use altgrad_plugin_api::RandomKey;
use burn::backend::TensorMetadata as _;
use burn::tensor::{DType, Shape};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    Rotation,
    own_rounding_kernel::{key_words, random_word},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, QUIET, UNITS, elements},
    host_words::step_word,
    kernel_text::cubes,
};

/// Words of signs: a bit for each element of the largest tile.
const SIGN_WORDS: usize = 8;

/// The rows rotated, or rotated back. Their width is a whole number of tiles.
pub(super) fn rotate(x: CubeTensor, rotation: Rotation, back: bool) -> CubeTensor {
    let Rotation { hadamard, key } = rotation;
    let x = into_contiguous(x);
    let y = empty_device_contiguous_dtype(x.client.clone(), x.device(), x.shape(), DType::F32);
    let is_random = hadamard.signs == Signs::Seed;
    let mut words = [0u32; SIGN_WORDS];
    if !is_random {
        for (index, sign) in hadamard.signs(&key).into_iter().enumerate() {
            words[index / 32] |= u32::from(sign < 0.0) << (index % 32);
        }
    }
    let step = if is_random {
        step_word(&x.device(), key.step)
    } else {
        empty_device_contiguous_dtype(x.client.clone(), x.device(), Shape::from([1]), DType::F32)
    };
    let (client, elements) = (x.client.clone(), elements(&x));
    rotate_tiles::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        x.into_buffer_arg(),
        step.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        elements,
        words.into_iter().collect(),
        key_words(&RandomKey { offset: SIGNS_OFFSET, ..key }),
        hadamard.factor(),
        hadamard.size as u32,
        hadamard.to_bf16 && !back,
        back,
        is_random,
    );
    y
}

/// A cube transforms as many elements at once as it has units, which are whole tiles. Signs are bits of `signs`, or
/// random: the lowest bits of words of `key`.
#[cube(launch)]
fn rotate_tiles(
    x: &[f32],
    step: &[u32],
    y: &mut [f32],
    elements: u32,
    signs: Sequence<u32>,
    key: Sequence<u32>,
    factor: f32,
    #[comptime] size: u32,
    #[comptime] to_bf16: bool,
    #[comptime] back: bool,
    #[comptime] is_random: bool,
) {
    let mut values = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let place = UNIT_POS % size;
    let mut bit = 0u32;
    if comptime!(is_random) {
        bit = random_word(place, &key, step[0usize]);
    } else {
        #[unroll]
        for i in 0..SIGN_WORDS {
            let word = signs[i] >> (place % 32u32);
            bit = select(place / 32u32 == comptime!(i as u32), word, bit);
        }
    }
    let sign = select((bit & 1u32) == 1u32, -1.0f32, 1.0f32);
    let mut first = CUBE_POS as u32 * UNITS;
    while first < elements {
        let position = first + UNIT_POS;
        let inside = position < elements;
        let mut own = 0.0f32;
        if inside {
            own = x[position as usize];
        }
        if comptime!(!back) {
            own *= sign;
        }
        #[unroll]
        for level in 0..comptime!(size.ilog2()) {
            let distance = comptime!(1u32 << level);
            sync_cube();
            values[UNIT_POS as usize] = own;
            sync_cube();
            let is_left = (UNIT_POS & distance) == 0u32;
            let other = values[(UNIT_POS ^ distance) as usize];
            own = select(is_left, own + other, other - own);
        }
        let result = if comptime!(back) { own * (factor * sign) } else { own * factor };
        if inside {
            y[position as usize] = if comptime!(to_bf16) { nearest_bf16(result) } else { result };
        }
        first += CUBE_COUNT as u32 * UNITS;
    }
}

#[cube]
fn nearest_bf16(x: f32) -> f32 {
    let bits = u32::reinterpret(x);
    let rounded = bits + 0x7fffu32 + ((bits >> 16u32) & 1u32);
    let rounded = select((bits & MAGNITUDE) > INFINITY, bits | QUIET, rounded);
    f32::reinterpret(rounded & 0xffff_0000u32)
}
