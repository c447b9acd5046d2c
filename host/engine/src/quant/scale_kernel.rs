//! Dynamic scales on a device: from the largest magnitude of each group to its scale and inverse.
//!
//! Divisions are done in integers, because devices differ in how they round a quotient (WGSL allows 2.5 ULP), and
//! every device is to use the same scale: the one [`super::scale::ScaleRule::scale`] gives.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::scale::ScaleRule;
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, UNITS, cube_max},
    zero_words::zero_words,
};

/// The longest group that one unit compares. A cube compares longer ones.
const MOST_OF_UNIT: usize = 64;
/// The longest group that one cube compares, if there are few. Otherwise a cube compares a part of this length at
/// least.
const MOST_OF_CUBE: usize = 1 << 12;
/// Groups that occupy a GPU with a cube each.
const MANY: usize = 128;
/// Parts of a group, which one cube compares.
const MAX_PARTS: usize = 256;
/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;
/// f32 bits of 2^126 and 2^-126, between which scales are kept.
const LARGEST: u32 = (127 + 126) << 23;
const SMALLEST: u32 = (127 - 126) << 23;
const SIGNIFICAND: u32 = (1 << 23) - 1;
const ONE: u32 = 127 << 23;

/// `[groups, 2]`: scale and inverse of each group of `x`. One launch, and one more for the parts of few long groups
/// where cubes cannot pass results to each other.
pub(super) fn scales(x: CubeTensor, rule: ScaleRule) -> CubeTensor {
    let passes_results = x.client.features().device_memory_scope;
    scales_by(x, rule, passes_results)
}

/// [`scales()`] in one launch or more.
#[must_use]
pub fn scales_by(x: CubeTensor, rule: ScaleRule, in_one_launch: bool) -> CubeTensor {
    let elements = x.shape().num_elements();
    let len = rule.group_len(elements);
    let groups = elements / len;
    let (client, device) = (x.client.clone(), x.device());
    let empty = |shape| empty_device_contiguous_dtype(client.clone(), device.clone(), shape, DType::F32);
    let scales = empty(Shape::from([groups, 2]));
    let parts = len.div_ceil(MOST_OF_CUBE).min(MAX_PARTS);
    let (values, dim) = (into_contiguous(x), CubeDim::new_1d(UNITS));
    let has_parts = parts > 1 && groups < MANY;
    if has_parts && in_one_launch {
        scales_by_parts::launch(
            &client,
            CubeCount::new_1d((groups * parts) as u32),
            dim,
            values.into_buffer_arg(),
            scales.clone().into_buffer_arg(),
            zero_words(&device, 2 * groups).into_buffer_arg(),
            groups as u32,
            len as u32,
            parts as u32,
            rule.numerator(),
            rule.least(),
            rule.scaling.pow2,
        );
        return scales;
    }
    let (values, len) = if has_parts {
        let largest = empty(Shape::from([groups * parts]));
        largest_of_parts::launch(
            &client,
            CubeCount::new_1d((groups * parts) as u32),
            dim,
            values.into_buffer_arg(),
            largest.clone().into_buffer_arg(),
            (groups * parts) as u32,
            len as u32,
            parts as u32,
        );
        (largest, parts)
    } else {
        (values, len)
    };
    let by_cube = len > MOST_OF_UNIT;
    let count = if by_cube {
        CubeCount::new_1d(groups.min(MAX_CUBES) as u32)
    } else {
        calculate_cube_count_elemwise(&client, groups, dim)
    };
    scales_of_groups::launch(
        &client,
        count,
        dim,
        values.into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        groups as u32,
        len as u32,
        rule.numerator(),
        rule.least(),
        rule.scaling.pow2,
        by_cube,
    );
    scales
}

/// Bits of the largest finite magnitude of `x[start], x[start + step] ..`, before `end`.
#[cube]
pub(super) fn largest_finite(x: &[f32], start: usize, end: usize, step: usize) -> u32 {
    let mut bits = 0u32;
    let mut place = start;
    while place < end {
        let magnitude = u32::reinterpret(x[place]) & MAGNITUDE;
        bits = max(bits, select(magnitude < INFINITY, magnitude, 0u32));
        place += step;
    }
    bits
}

/// Largest finite magnitude of each part of each group of `len` values; `elements` of `largest`, a cube each. A part
/// has every `parts`-th stretch of elements as long as a cube has units, so that neighbouring units read neighbouring
/// elements.
#[cube(launch)]
fn largest_of_parts(x: &[f32], largest: &mut [f32], elements: u32, len: u32, parts: u32) {
    if CUBE_POS < elements as usize {
        let bits = largest_of_part(x, CUBE_POS / parts as usize, len as usize, parts as usize);
        if UNIT_POS == 0u32 {
            largest[CUBE_POS] = f32::reinterpret(bits);
        }
    }
}

/// Bits of the largest finite magnitude of the cube's part of a group.
#[cube]
fn largest_of_part(x: &[f32], group: usize, len: usize, parts: usize) -> u32 {
    let first = group * len;
    let own = CUBE_POS % parts * comptime!(UNITS as usize) + UNIT_POS as usize;
    cube_max(largest_finite(x, first + own, first + len, parts * comptime!(UNITS as usize)))
}

/// Scale and inverse of each of `elements` groups of `len` values, `parts` cubes for each: the last cube that is done
/// writes. Parts are those of [`largest_of_parts()`]. `done` has two zeros for each group: the largest magnitude, and
/// the number of cubes that are done.
#[cube(launch)]
fn scales_by_parts(
    x: &[f32],
    scales: &mut [f32],
    done: &mut [Atomic<u32>],
    elements: u32,
    len: u32,
    parts: u32,
    numerator: f32,
    least: f32,
    #[comptime] pow2: bool,
) {
    let group = CUBE_POS / parts as usize;
    if group < elements as usize {
        let bits = largest_of_part(x, group, len as usize, parts as usize);
        if UNIT_POS == 0u32 {
            done[2 * group].fetch_max(bits);
        }
        // The maximum is there before the cube counts as done.
        sync_storage();
        if UNIT_POS == 0u32 {
            let before = done[2 * group + 1].fetch_add(1u32);
            if before + 1u32 == parts {
                let largest = done[2 * group].fetch_max(0u32);
                write_scale(scales, group, largest, numerator, least, pow2);
            }
        }
    }
}

/// Scale and inverse of each of `elements` groups of `len` values: a cube or a unit for each.
#[cube(launch)]
fn scales_of_groups(
    x: &[f32],
    scales: &mut [f32],
    elements: u32,
    len: u32,
    numerator: f32,
    least: f32,
    #[comptime] pow2: bool,
    #[comptime] by_cube: bool,
) {
    let len = len as usize;
    if comptime!(by_cube) {
        let mut group = CUBE_POS;
        while group < elements as usize {
            let first = group * len;
            let own = largest_finite(x, first + UNIT_POS as usize, first + len, comptime!(UNITS as usize));
            let largest = cube_max(own);
            if UNIT_POS == 0u32 {
                write_scale(scales, group, largest, numerator, least, pow2);
            }
            group += CUBE_COUNT;
        }
    } else if ABSOLUTE_POS < elements as usize {
        let first = ABSOLUTE_POS * len;
        let largest = largest_finite(x, first, first + len, 1usize);
        write_scale(scales, ABSOLUTE_POS, largest, numerator, least, pow2);
    }
}

/// Writes scale and inverse of a group whose largest finite magnitude has these bits.
#[cube]
pub(super) fn write_scale(
    scales: &mut [f32],
    group: usize,
    largest: u32,
    numerator: f32,
    least: f32,
    #[comptime] pow2: bool,
) {
    let mut scale = quotient(u32::reinterpret(numerator), max(largest, 1u32));
    if comptime!(pow2) {
        scale &= !SIGNIFICAND;
    }
    scale = max(scale, u32::reinterpret(least));
    scale = select(largest == 0u32, ONE, scale);
    scales[2 * group] = f32::reinterpret(scale);
    scales[2 * group + 1] = f32::reinterpret(quotient(ONE, scale));
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
