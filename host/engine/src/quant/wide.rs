//! Arithmetic of f64 numbers in kernels, on pairs of u32 and rounded once, to nearest-even: WGSL has no f64, and
//! compilers of CUDA fuse products into sums.
//!
//! Numbers are normal or 0: sums, means and squares of finite f32 neither underflow nor overflow.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use super::exact::{floor_log2, significand};
use crate::cube_parts::{MAGNITUDE, SIGN};

/// Bits below the 53 of a significand.
const CUT: u32 = 0x7ff;
const HALF: u32 = 0x400;
/// The exponent of 0, less than that of all other numbers.
const OF_ZERO: i32 = -5000;

/// `(high 2^32 + low) 2^exponent`, its highest bit set and its lowest eleven not; 0 has no bit.
#[derive(CubeType, CubeTypeMut, Clone, Copy)]
pub(super) struct Wide {
    pub(super) high: u32,
    pub(super) low: u32,
    pub(super) exponent: i32,
    /// 1 below 0: compilers lack the comparison of bool.
    pub(super) negative: u32,
}

/// 0.
#[cube]
pub(super) fn wide_zero() -> Wide {
    Wide { high: 0u32, low: 0u32, exponent: OF_ZERO.runtime(), negative: 0u32 }
}

/// A finite f32.
#[cube]
pub(super) fn wide(x: f32) -> Wide {
    let bits = u32::reinterpret(x);
    let size = bits & MAGNITUDE;
    let given = size != 0u32;
    Wide {
        high: select(given, significand(max(size, 1u32)) << 8u32, 0u32),
        low: 0u32,
        exponent: select(given, floor_log2(max(size, 1u32)) - 63i32, OF_ZERO),
        negative: bits >> 31u32,
    }
}

/// The number nearest to `(high 2^32 + low) 2^exponent`, where the lowest bit of `low` is set if the number is a little
/// larger.
#[cube]
fn rounded(high: u32, low: u32, exponent: i32, negative: u32) -> Wide {
    let in_low = high == 0u32;
    let up = u32::leading_zeros(select(in_low, low, high) | 1u32);
    // Shifts by 32 bits are undefined.
    let carried = (low >> 1u32) >> (31u32 - up);
    let top = select(in_low, low << up, (high << up) | carried);
    let rest = select(in_low, 0u32, low << up);
    let places = i32::cast_from(up) + select(in_low, 32i32, 0i32);
    let cut = rest & CUT;
    let goes_up = cut > HALF || (cut == HALF && (rest & comptime!(CUT + 1)) != 0u32);
    let kept = rest - cut;
    let next = kept + select(goes_up, CUT + 1u32, 0u32);
    let carry = goes_up && next == 0u32;
    let above = top + u32::cast_from(carry);
    let is_power = carry && above == 0u32;
    let is_zero = (high | low) == 0u32;
    Wide {
        high: select(is_power, SIGN, select(is_zero, 0u32, above)),
        low: select(is_zero, 0u32, next),
        exponent: select(is_zero, OF_ZERO, exponent - places + select(is_power, 1i32, 0i32)),
        negative,
    }
}

/// `a + b`.
#[cube]
pub(super) fn wide_sum(a: &Wide, b: &Wide) -> Wide {
    let same = a.exponent == b.exponent;
    let first =
        a.exponent > b.exponent || (same && (a.high > b.high || (a.high == b.high && a.low >= b.low)));
    let exponent = select(first, a.exponent, b.exponent);
    let (x1, x0) = (select(first, a.high, b.high), select(first, a.low, b.low));
    let (y1, y0) = (select(first, b.high, a.high), select(first, b.low, a.low));
    let down = u32::cast_from(min(exponent - select(first, b.exponent, a.exponent), 62i32)) + 1u32;
    // Both one bit lower, so that the sum fits; the smaller one with a bit for all that is cut off.
    let (x1, x0) = (x1 >> 1u32, (x0 >> 1u32) | (x1 << 31u32));
    let far = down >= 32u32;
    let by = down & 31u32;
    let moved = (y1 << 1u32) << (31u32 - by);
    let mask = (1u32 << by) - 1u32;
    let lost = select(far, y0 | (y1 & mask), y0 & mask);
    let z1 = select(far, 0u32, y1 >> by);
    let z0 = select(far, y1 >> by, (y0 >> by) | moved) | u32::cast_from(lost != 0u32);
    let adds = a.negative == b.negative;
    let plus = x0 + z0;
    let minus = x0 - z0;
    let high = select(adds, x1 + z1 + u32::cast_from(plus < x0), x1 - z1 - u32::cast_from(x0 < z0));
    rounded(high, select(adds, plus, minus), exponent + 1i32, select(first, a.negative, b.negative))
}

/// `a^2`.
#[cube]
pub(super) fn wide_square(a: &Wide) -> Wide {
    let cross = a.high * a.low;
    let above = a.high.mul_hi(a.low);
    let of_low = a.low.mul_hi(a.low);
    let second = of_low + (cross << 1u32);
    let of_high = a.high * a.high;
    let twice = of_high + ((above << 1u32) | (cross >> 31u32));
    let third = twice + u32::cast_from(second < of_low);
    let carries = u32::cast_from(twice < of_high) + u32::cast_from(third < twice);
    let fourth = a.high.mul_hi(a.high) + (above >> 31u32) + carries;
    let rest = ((a.low * a.low) | second) != 0u32;
    rounded(fourth, third | u32::cast_from(rest), 2i32 * a.exponent + 64i32, 0u32)
}

/// `a / count`, count from 1 to 511.
#[cube]
pub(super) fn wide_share(a: &Wide, count: u32) -> Wide {
    let (mut high, mut low) = (a.high, a.low);
    let mut remainder = 0u32;
    // The quotient enters from below as the dividend leaves above: 55 bits or more.
    for _ in 0..64u32 {
        remainder = (remainder << 1u32) | (high >> 31u32);
        let fits = remainder >= count;
        remainder -= select(fits, count, 0u32);
        high = (high << 1u32) | (low >> 31u32);
        low = (low << 1u32) | u32::cast_from(fits);
    }
    rounded(high, low | u32::cast_from(remainder != 0u32), a.exponent, a.negative)
}

/// `a / b`, both above 0.
#[cube]
pub(super) fn wide_quotient(a: &Wide, b: &Wide) -> Wide {
    let is_small = a.high < b.high || (a.high == b.high && a.low < b.low);
    // Both one bit lower, so that twice the remainder fits: their lowest bits are not set.
    let (d1, d0) = (b.high >> 1u32, (b.low >> 1u32) | (b.high << 31u32));
    let (mut r1, mut r0) = (
        select(is_small, a.high, a.high >> 1u32),
        select(is_small, a.low, (a.low >> 1u32) | (a.high << 31u32)),
    );
    let mut q1 = 0u32;
    let mut q0 = 0u32;
    // The first of the quotient's digits is 1: 53 of them, and four more.
    for _ in 0..57u32 {
        let fits = r1 > d1 || (r1 == d1 && r0 >= d0);
        let (s1, s0) = (select(fits, d1, 0u32), select(fits, d0, 0u32));
        let less = r0 - s0;
        let rest = r1 - s1 - u32::cast_from(r0 < s0);
        r1 = (rest << 1u32) | (less >> 31u32);
        r0 = less << 1u32;
        q1 = (q1 << 1u32) | (q0 >> 31u32);
        q0 = (q0 << 1u32) | u32::cast_from(fits);
    }
    let exponent = a.exponent - b.exponent - select(is_small, 57i32, 56i32);
    rounded(q1, q0 | u32::cast_from((r1 | r0) != 0u32), exponent, 0u32)
}

/// `-a`.
#[cube]
pub(super) fn wide_negated(a: &Wide) -> Wide {
    Wide { high: a.high, low: a.low, exponent: a.exponent, negative: 1u32 - a.negative }
}

/// The two words of a number as f64 has them; zeros for 0 and negative numbers.
#[cube]
pub(super) fn f64_words(a: &Wide) -> (u32, u32) {
    let none = a.negative == 1u32 || (a.high | a.low) == 0u32;
    let biased = u32::cast_from(max(a.exponent + 63i32 + 1023i32, 0i32));
    let high = (biased << 20u32) | ((a.high >> 11u32) & 0xf_ffffu32);
    let low = (a.low >> 11u32) | (a.high << 21u32);
    (select(none, 0u32, high), select(none, 0u32, low))
}
