//! Arithmetic of positive f32 numbers in kernels, on their bits and rounded once, to nearest-even: devices differ in
//! how they round a quotient (WGSL allows 2.5 ULP), flush subnormal numbers, and fuse products into sums.
//!
//! Numbers are finite and not negative, unless a function says otherwise; a result may be infinity.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use crate::cube_parts::INFINITY;

pub(super) const SIGNIFICAND: u32 = (1 << 23) - 1;
/// f32 bits of 1, of the largest number and of `2^-126`.
pub(super) const ONE: u32 = 127 << 23;
pub(super) const LARGEST: u32 = 0x7f7f_ffff;
pub(super) const MIN_NORMAL: u32 = 1 << 23;
/// Biased exponents of f32.
const BIAS: i32 = 127;

/// The significand of a number that is not 0, from `2^23`.
#[cube]
pub(super) fn significand(bits: u32) -> u32 {
    let fraction = bits & SIGNIFICAND;
    select(
        bits <= SIGNIFICAND,
        fraction << (u32::leading_zeros(fraction | 1u32) - 8u32),
        fraction | (SIGNIFICAND + 1u32),
    )
}

/// The exponent of the same, biased; 0 and less for subnormal numbers.
#[cube]
fn exponent(bits: u32) -> i32 {
    let up = u32::leading_zeros((bits & SIGNIFICAND) | 1u32) - 8u32;
    select(bits <= SIGNIFICAND, 1i32 - i32::cast_from(up), i32::cast_from(bits >> 23u32))
}

/// Bits of `m 2^(e - 152)` rounded, `m` from `2^25` to `2^26`; `rest` if the number is a little larger.
#[cube]
fn rounded(m: u32, rest: bool, e: i32) -> u32 {
    let below = select(e < 1i32, u32::cast_from(min(1i32 - e, 25i32)), 0u32);
    let shift = 2u32 + below;
    let floor = m >> shift;
    let cut = m & ((1u32 << shift) - 1u32);
    let half = 1u32 << (shift - 1u32);
    let up = cut > half || (cut == half && (rest || (floor & 1u32) == 1u32));
    // A carry out of the significand counts the exponent up by itself.
    let whole = floor + u32::cast_from(up);
    let field = select(e < 1i32, 0u32, u32::cast_from(max(e, 1i32) - 1i32) << 23u32);
    select(e > 254i32, INFINITY, min(field + whole, INFINITY))
}

/// `a b 2^shift`.
#[cube]
pub(super) fn product_shifted(a: u32, b: u32, shift: i32) -> u32 {
    let (x, y) = (significand(a), significand(b));
    let (x1, x0, y1, y0) = (x >> 12u32, x & 0xfffu32, y >> 12u32, y & 0xfffu32);
    let middle = x1 * y0 + x0 * y1;
    let low = x0 * y0 + ((middle & 0xfffu32) << 12u32);
    // The product is high 2^24 and the low bits.
    let high = x1 * y1 + (middle >> 12u32) + (low >> 24u32);
    let low = low & 0xff_ffffu32;
    let is_large = high >= comptime!(1u32 << 23);
    let m = select(is_large, (high << 2u32) | (low >> 22u32), (high << 3u32) | (low >> 21u32));
    let rest = select(is_large, low & 0x3f_ffffu32, low & 0x1f_ffffu32) != 0u32;
    let e = exponent(a) + exponent(b) - select(is_large, BIAS - 1i32, BIAS) + shift;
    select(a == 0u32 || b == 0u32, 0u32, rounded(m, rest, e))
}

/// `a b`.
#[cube]
pub(super) fn product(a: u32, b: u32) -> u32 {
    product_shifted(a, b, 0i32)
}

/// `a / b 2^shift`; infinity if `b` is 0 and `a` is not.
#[cube]
pub(super) fn quotient_shifted(a: u32, b: u32, shift: i32) -> u32 {
    let (x, divisor) = (significand(a), significand(b));
    let is_small = x < divisor;
    let mut remainder = select(is_small, x << 1u32, x);
    // 24 bits of the quotient and two more, by long division.
    let mut digits = 0u32;
    for _ in 0..26u32 {
        let fits = remainder >= divisor;
        digits = (digits << 1u32) | u32::cast_from(fits);
        remainder = (remainder - select(fits, divisor, 0u32)) << 1u32;
    }
    let e = exponent(a) - exponent(b) + BIAS - select(is_small, 1i32, 0i32) + shift;
    let result = rounded(digits, remainder != 0u32, e);
    select(a == 0u32, 0u32, select(b == 0u32, INFINITY, result))
}

/// `a / b`.
#[cube]
pub(super) fn quotient(a: u32, b: u32) -> u32 {
    quotient_shifted(a, b, 0i32)
}

/// `floor(log2 a)` of a number that is not 0.
#[cube]
pub(super) fn floor_log2(a: u32) -> i32 {
    exponent(a) - BIAS
}

/// `ceil(log2 a)` of a number that is not 0.
#[cube]
pub(super) fn ceil_log2(a: u32) -> i32 {
    floor_log2(a) + select((significand(a) & SIGNIFICAND) == 0u32, 0i32, 1i32)
}

/// `2^e`, e from -149 to 127.
#[cube]
pub(super) fn exp2(e: i32) -> u32 {
    let normal = u32::cast_from(max(e, -126i32) + BIAS) << 23u32;
    let subnormal = 1u32 << u32::cast_from(clamp(e + 149i32, 0i32, 22i32));
    select(e < -126i32, subnormal, normal)
}

/// The nearest bf16 value of a number, ties to even.
#[cube]
pub(super) fn nearest_bf16(a: u32) -> u32 {
    (a + 0x7fffu32 + ((a >> 16u32) & 1u32)) & 0xffff_0000u32
}

/// The nearest whole number of steps of `2^step` to a number, fewer than `2^24`: ties to even, or away from zero.
#[cube]
pub(super) fn steps(a: u32, step: i32, #[comptime] ties_away: bool) -> u32 {
    let m = significand(a);
    // The number is m 2^(e - 23).
    let shift = min(max(step - (floor_log2(a) - 23i32), 0i32), 25i32);
    let shift = u32::cast_from(shift);
    let floor = m >> shift;
    let cut = m & ((1u32 << shift) - 1u32);
    let half = select(shift == 0u32, 1u32, 1u32 << (max(shift, 1u32) - 1u32));
    let tie_goes_up = if comptime!(ties_away) { true.runtime() } else { (floor & 1u32) == 1u32 };
    let up = cut > half || (cut == half && tie_goes_up);
    select(a == 0u32, 0u32, floor + u32::cast_from(up && shift != 0u32))
}
