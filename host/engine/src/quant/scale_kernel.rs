//! Dynamic scales on a device: from the largest magnitude of each group to its scale and inverse.
//!
//! Divisions are done in integers, because devices differ in how they round a quotient (WGSL allows 2.5 ULP), and
//! every device is to use the same scale: the one [`super::scale::ScaleRule::scale`] gives.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::scale::ScaleRule;
use crate::cube_parts::{INFINITY, MAGNITUDE};

const UNITS: u32 = 64;
/// Most elements that one unit compares.
const COMPARED: usize = 256;
/// f32 bits of 2^126 and 2^-126, between which scales are kept.
const LARGEST: u32 = (127 + 126) << 23;
const SMALLEST: u32 = (127 - 126) << 23;
const SIGNIFICAND: u32 = (1 << 23) - 1;
const ONE: u32 = 127 << 23;

/// `[groups, 2]`: scale and inverse of each group of `x`.
pub(super) fn scales(x: CubeTensor, rule: ScaleRule) -> CubeTensor {
    let elements = x.shape().num_elements();
    let groups = elements / rule.group_len(elements);
    let (client, dim) = (x.client.clone(), CubeDim::new_1d(UNITS));
    let scales = empty_device_contiguous_dtype(client.clone(), x.device(), [groups, 2].into(), DType::F32);
    let amax = finite_amax(into_contiguous(x), groups);
    finish::launch(
        &client,
        calculate_cube_count_elemwise(&client, groups, dim),
        dim,
        amax.into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        groups as u32,
        rule.numerator(),
        rule.least(),
        rule.scaling.pow2,
    );
    scales
}

/// Largest finite magnitude of each of `groups` groups of consecutive elements, `[groups]`: of parts of the groups, then of parts of
/// these results, until a group has one.
fn finite_amax(x: CubeTensor, groups: usize) -> CubeTensor {
    let (client, dim, mut values) = (x.client.clone(), CubeDim::new_1d(UNITS), x);
    loop {
        let len = values.shape().num_elements() / groups;
        let parts = len.div_ceil(COMPARED);
        let shape = Shape::from([groups * parts]);
        let largest = empty_device_contiguous_dtype(client.clone(), values.device(), shape, DType::F32);
        largest_of_parts::launch(
            &client,
            calculate_cube_count_elemwise(&client, groups * parts, dim),
            dim,
            values.into_buffer_arg(),
            largest.clone().into_buffer_arg(),
            (groups * parts) as u32,
            len as u32,
            parts as u32,
        );
        if parts == 1 {
            return largest;
        }
        values = largest;
    }
}

/// Largest finite magnitude of each part of each group of `len` values; `elements` of `largest`. A part has every `parts`-th element, so that neighbouring
/// units read neighbouring elements.
#[cube(launch)]
fn largest_of_parts(x: &[f32], largest: &mut [f32], elements: u32, len: u32, parts: u32) {
    if ABSOLUTE_POS < elements as usize {
        let (len, parts) = (len as usize, parts as usize);
        let group = ABSOLUTE_POS / parts;
        let mut place = ABSOLUTE_POS % parts;
        let mut bits = 0u32;
        while place < len {
            let magnitude = u32::reinterpret(x[group * len + place]) & MAGNITUDE;
            bits = max(bits, select(magnitude < INFINITY, magnitude, 0u32));
            place += parts;
        }
        largest[ABSOLUTE_POS] = f32::reinterpret(bits);
    }
}

#[cube(launch)]
fn finish(
    amax: &[f32],
    scales: &mut [f32],
    elements: u32,
    numerator: f32,
    least: f32,
    #[comptime] pow2: bool,
) {
    if ABSOLUTE_POS < elements as usize {
        let largest = u32::reinterpret(amax[ABSOLUTE_POS]);
        let mut scale = quotient(u32::reinterpret(numerator), max(largest, 1u32));
        if comptime!(pow2) {
            scale &= !SIGNIFICAND;
        }
        scale = max(scale, u32::reinterpret(least));
        scale = select(largest == 0u32, ONE, scale);
        scales[2 * ABSOLUTE_POS] = f32::reinterpret(scale);
        scales[2 * ABSOLUTE_POS + 1] = f32::reinterpret(quotient(ONE, scale));
    }
}

/// Bits of `a / b`, rounded to nearest-even and kept between 2^-126 and 2^126. Both are positive and finite, `a` is
/// normal.
#[cube]
fn quotient(a: u32, b: u32) -> u32 {
    let mut remainder = (a & SIGNIFICAND) | (SIGNIFICAND + 1u32);
    let mut exponent = i32::cast_from(a >> 23u32) + 127i32;
    let fraction = b & SIGNIFICAND;
    let subnormal = b <= SIGNIFICAND;
    let up = select(subnormal, u32::leading_zeros(fraction) - 8u32, 0u32);
    let divisor = select(subnormal, fraction << up, fraction | (SIGNIFICAND + 1u32));
    exponent -= select(subnormal, 1i32 - i32::cast_from(up), i32::cast_from(b >> 23u32));
    if remainder < divisor {
        remainder <<= 1u32;
        exponent -= 1i32;
    }
    // 24 bits of the quotient and one more, by long division.
    let mut digits = 0u32;
    for _ in 0..25u32 {
        let fits = remainder >= divisor;
        digits = (digits << 1u32) | u32::cast_from(fits);
        remainder = (remainder - select(fits, divisor, 0u32)) << 1u32;
    }
    let sticky = u32::cast_from(remainder != 0u32);
    let round = digits & 1u32;
    digits >>= 1u32;
    digits += round & (sticky | (digits & 1u32));
    // A carry out of the significand counts the exponent up by itself.
    let bits = (exponent << 23i32) + i32::cast_from(digits - (SIGNIFICAND + 1u32));
    let bits = clamp(bits, comptime!(SMALLEST as i32), comptime!(LARGEST as i32));
    select(exponent < 1i32, SMALLEST, select(exponent > 253i32, LARGEST, u32::cast_from(bits)))
}
