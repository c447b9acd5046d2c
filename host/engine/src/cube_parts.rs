//! Shared parts of the engine's own kernels: their lengths, the bits of an f32, sums and maxima over a cube.
//!
//! A kernel takes its length from [`elements`], as a scalar. The length of a buffer may be larger, because CUDA pads
//! the last dimension of a tensor to up to 512 bytes. The test `kernels` of `tests/end-to-end` refuses `len()` in
//! kernels.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use burn::backend::TensorMetadata as _;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units per cube.
pub const UNITS: u32 = 256;
/// Bits of an f32 without its sign.
pub const MAGNITUDE: u32 = 0x7fff_ffff;
/// The sign bit of an f32.
pub const SIGN: u32 = 0x8000_0000;
/// Bits of f32 infinity; NaN has more.
pub const INFINITY: u32 = 0x7f80_0000;
/// The bit that makes an f32 NaN quiet.
pub const QUIET: u32 = 0x0040_0000;

/// Units that add up a column in the first stage, and entries of it that each adds.
const PARTS: u32 = 16;

/// The elements of a tensor, without those that pad its buffer. Kernels address elements with 32 bits.
#[must_use]
pub fn elements(tensor: &CubeTensor) -> u32 {
    tensor.shape().num_elements() as u32
}

/// True if a tensor is a matrix whose rows are contiguous and in order. Each may be followed by padding.
#[must_use]
pub fn has_rows(tensor: &CubeTensor) -> bool {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    shape.num_dims() == 2 && strides[1] == 1 && strides[0] >= shape[1]
}

/// True if an f32 is a NaN: by its bits, because shader compilers may assume that there is none.
#[cube]
pub fn is_nan(x: f32) -> bool {
    (u32::reinterpret(x) & MAGNITUDE) > INFINITY
}

/// The sum of a number of each unit, in one fixed order, so that equal launches give equal bits. All units of the cube
/// must call it, and all get the sum. It may be called in a loop: no unit writes before all have read the sum before.
#[cube]
pub fn cube_sum(own: f32) -> f32 {
    sync_cube();
    let mut column = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    column[UNIT_POS as usize] = own;
    sync_cube();
    if UNIT_POS < PARTS {
        let total = fold(&column, UNIT_POS, PARTS);
        column[UNIT_POS as usize] = total;
    }
    sync_cube();
    fold(&column, 0u32, 1u32)
}

/// Adds entries `first, first + step ..`, [`PARTS`] of them, in order.
#[cube]
fn fold(column: &Shared<[f32]>, first: u32, #[comptime] step: u32) -> f32 {
    let mut total = 0.0f32;
    for i in 0..PARTS {
        total += column[(first + i * step) as usize];
    }
    total
}

/// The largest number of all units. All units of the cube must call it, and all get the number. It may be called in a
/// loop.
#[cube]
pub fn cube_max(own: u32) -> u32 {
    sync_cube();
    let largest = Shared::<[Atomic<u32>]>::new_slice(1usize);
    if UNIT_POS == 0u32 {
        largest[0usize].store(0u32);
    }
    sync_cube();
    largest[0usize].fetch_max(own);
    sync_cube();
    largest[0usize].load()
}

/// The bits of a number, changed so that larger numbers have larger bits; a NaN is above infinity or below its
/// negative.
#[cube]
pub fn ordered(x: f32) -> u32 {
    let bits = u32::reinterpret(x);
    select(bits > MAGNITUDE, !bits, bits | SIGN)
}

/// An integer that ascends with the number, as [`ordered()`]'s does; both zeros have one.
#[must_use]
pub fn ascending(x: f32) -> u32 {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | SIGN }
}

/// The number of [`ordered()`] bits.
#[cube]
pub fn unordered(bits: u32) -> f32 {
    f32::reinterpret(select(bits >= SIGN, bits & MAGNITUDE, !bits))
}
