//! Dynamic scales on a device: from the largest magnitude of each group to its scale and inverse.
//!
//! Divisions are done in integers, because devices differ in how they round a quotient (WGSL allows 2.5 ULP), and
//! every device is to use the same scale: the one [`super::scale::ScaleRule::scale`] gives.

use burn::backend::{Backend, TensorMetadata, get_device_settings, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::scale::ScaleRule;

const UNITS: u32 = 64;
/// f32 bits of 2^126 and 2^-126, between which scales are kept.
const LARGEST: u32 = (127 + 126) << 23;
const SMALLEST: u32 = (127 - 126) << 23;
const SIGNIFICAND: u32 = (1 << 23) - 1;
const ONE: u32 = 127 << 23;

/// `[groups, 2]`: scale and inverse of each group of `x`.
pub(super) fn scales(x: CubeTensor, rule: ScaleRule) -> CubeTensor {
    let elements = x.shape().num_elements();
    let groups = elements / rule.group_len(elements);
    let (client, device) = (x.client.clone(), x.device.clone());
    let amax = into_contiguous(finite_amax::<CubeBackend>(x, groups));
    let scales = empty_device_contiguous_dtype(client.clone(), device, Shape::from([groups, 2]), DType::F32);
    finish::launch(
        &client,
        CubeCount::new_1d((groups as u32).div_ceil(UNITS)),
        CubeDim::new_1d(UNITS),
        amax.into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        rule.numerator(),
        rule.scaling.pow2,
    );
    scales
}

/// Largest finite magnitude of each of `groups` groups of consecutive elements: `[groups, 1]`.
fn finite_amax<B: Backend>(x: FloatTensor<B>, groups: usize) -> FloatTensor<B> {
    let bools = get_device_settings::<B>(&x.device()).bool_dtype;
    let len = x.shape().num_elements() / groups;
    let magnitudes = B::float_abs(B::float_reshape(x, Shape::from([groups, len])));
    // Not "above the largest": a NaN must count as infinite too.
    let finite = B::float_lower_equal_elem(magnitudes.clone(), f32::MAX.into(), bools);
    B::float_max_dim(B::float_mask_fill(magnitudes, B::bool_not(finite), 0f32.into()), 1)
}

#[cube(launch)]
fn finish(amax: &[f32], scales: &mut [f32], numerator: f32, #[comptime] pow2: bool) {
    if ABSOLUTE_POS < amax.len() {
        let largest = u32::reinterpret(amax[ABSOLUTE_POS]);
        let mut scale = quotient(u32::reinterpret(numerator), max(largest, 1u32));
        if comptime!(pow2) {
            scale &= !SIGNIFICAND;
        }
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
