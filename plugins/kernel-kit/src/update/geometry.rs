//! The geometry of a minifloat that scalars describe, and of its asinh chart: `optimizer-kit`'s `codes` and `smooth`,
//! on a device.
//!
//! The description's words are f32 bits by default. Of the codes: amount, `2^emin`, M (an integer), largest value,
//! `2^(emin-M)`, `2^(emin-23)`. Of the chart: amount, shift, its inverse, b shifted, `ln 2 / 2^M`, largest value.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::{is_nan, nan};
use crate::rounder::{INFINITY, MAGNITUDE, SIGN};

/// The value of the lowest exponent bit of an f32.
const BINADE: u32 = 1 << 23;
/// Largest argument of [`exp`]: `e^87` is near f32's largest number.
const LIMIT: f32 = 87.0;
/// Longest step on the chart, `ln 2` a binade: its exponential's square fits in f32.
const CHART_LIMIT: f32 = 43.0;
/// 2^63, the largest shifted value of a grid on the chart. Squares of larger ones may exceed f32's largest value.
const CHART_END: f32 = (1u64 << 63) as f32;
/// The bits of 1.
const ONE: u32 = 0x3f80_0000;
const SQRT_2: f32 = std::f32::consts::SQRT_2;
const LOG2_E_TWICE: f32 = 2.0 * std::f32::consts::LOG2_E;
/// `ln 2` in two parts: the first has few bits, so that its multiples are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// The words that describe a grid, by their place.
#[derive(CubeType, Clone, Copy)]
pub struct Description {
    pub amount: u32,
    pub r2: u32,
    pub r3: u32,
    pub r4: u32,
    pub r5: u32,
    pub r6: u32,
}

#[cube]
impl Description {
    /// The factor of steps or gradients, besides the spacing.
    pub fn amount(&self) -> f32 {
        f32::reinterpret(self.amount)
    }
}

/// Exponent field of the spacing's binade at `x`.
#[cube]
pub fn field(x: f32, emin_bits: u32) -> u32 {
    max(u32::reinterpret(x) & INFINITY, emin_bits) >> 23u32
}

/// `2^n`, a normal number.
#[cube]
pub fn exp2i(n: i32) -> f32 {
    f32::reinterpret(u32::cast_from(n + 127i32) << 23u32)
}

/// Spacing of codes at `x`.
#[cube]
pub fn spacing(x: f32, grid: &Description) -> f32 {
    let power = f32::reinterpret(max(u32::reinterpret(x) & INFINITY, grid.r2));
    power * exp2i(-i32::cast_from(grid.r3))
}

/// Largest value of codes.
#[cube]
pub fn end(grid: &Description) -> f32 {
    f32::reinterpret(grid.r4)
}

/// Fine steps from zero to a magnitude.
#[cube]
fn fine_coordinate(magnitude: f32, emin_bits: u32) -> i32 {
    let bits = u32::reinterpret(magnitude);
    // Adding 2^emin gives smaller values a binade of their own.
    let below = u32::reinterpret(magnitude + f32::reinterpret(emin_bits)) - emin_bits;
    i32::cast_from(select(bits < emin_bits, below, bits - emin_bits + BINADE))
}

/// The value at a fine coordinate.
#[cube]
fn at_fine(fine: i32, grid: &Description) -> f32 {
    let negative = fine < 0i32;
    let steps = u32::cast_from(select(negative, -fine, fine));
    let normal = steps + grid.r2 - BINADE;
    let linear = u32::reinterpret(f32::cast_from(steps) * f32::reinterpret(grid.r6));
    f32::reinterpret(select(steps < BINADE, linear, normal) | select(negative, SIGN, 0u32))
}

/// The value `codes` codes above `x`, but never beyond the ends.
#[cube]
pub fn moved(x: f32, codes: f32, grid: &Description) -> f32 {
    let sign = u32::reinterpret(x) & SIGN;
    let magnitude = f32::reinterpret(u32::reinterpret(x) & MAGNITUDE);
    let outward = f32::reinterpret(u32::reinterpret(codes) ^ sign);
    let even = magnitude + outward * f32::reinterpret(grid.r5);
    let max_fine = fine_coordinate(end(grid), grid.r2);
    let from = min(fine_coordinate(magnitude, grid.r2), max_fine);
    let most = f32::cast_from((1u32 << (grid.r3 + 8u32)) - 1u32);
    let limited = clamp(outward, -most, most);
    let whole = f32::floor(limited + 0.5f32);
    let fine_bits = 23u32 - grid.r3;
    let part = f32::floor((limited - whole) * exp2i(i32::cast_from(fine_bits)) + 0.5f32);
    let by = i32::cast_from(whole) * (1i32 << i32::cast_from(fine_bits)) + i32::cast_from(part);
    let curved = at_fine(max(from + min(by, max_fine - from), -max_fine), grid);
    let even_end = f32::reinterpret(grid.r2 + BINADE);
    let is_even = magnitude <= even_end && f32::abs(even) <= even_end;
    let to = select(is_even, clamp(even, -end(grid), end(grid)), curved);
    select(is_nan(codes), nan(codes), f32::reinterpret(u32::reinterpret(to) ^ sign))
}

/// `sqrt(x^2 + b^2)` on the chart, all shifted; `|x|` beyond the grid.
#[cube]
fn radius(shifted: f32, grid: &Description) -> f32 {
    let magnitude = f32::abs(shifted);
    select(magnitude > CHART_END, magnitude, f32::sqrt(shifted * shifted + f32::reinterpret(grid.r4)))
}

/// Spacing on the chart.
#[cube]
pub fn smooth_spacing(x: f32, grid: &Description) -> f32 {
    f32::reinterpret(grid.r5) * (radius(x * f32::reinterpret(grid.r2), grid) * f32::reinterpret(grid.r3))
}

/// Largest value of the chart.
#[cube]
pub fn smooth_end(grid: &Description) -> f32 {
    f32::reinterpret(grid.r6)
}

/// The value `codes` codes above `x` on the chart, but never beyond the ends.
#[cube]
pub fn smooth_moved(x: f32, codes: f32, grid: &Description) -> f32 {
    let sign = u32::reinterpret(x) & SIGN;
    let b_squared = f32::reinterpret(grid.r4);
    let shifted = x * f32::reinterpret(grid.r2);
    let magnitude = f32::abs(shifted);
    let outward = f32::reinterpret(u32::reinterpret(codes) ^ sign);
    let e = parts(clamp(f32::reinterpret(grid.r5) * outward, -CHART_LIMIT, CHART_LIMIT));
    let exp = e.power + e.power * e.rest;
    let exp_m1 = e.power * e.rest + (e.power - 1.0f32);
    // sinh d = (e^d - 1) (e^d + 1) / (2 e^d). Its factor is divided first: products with b^2 may be subnormal.
    let sinh = 0.5f32 * exp_m1 * (exp + 1.0f32) / exp;
    let inward = b_squared / (magnitude + radius(shifted, grid));
    let to = (magnitude * exp + sinh * inward) * f32::reinterpret(grid.r3);
    let signed = f32::reinterpret(u32::reinterpret(to) ^ sign);
    select(is_nan(codes), nan(codes), clamp(signed, -smooth_end(grid), smooth_end(grid)))
}

/// `e^x = power * (1 + rest)`, power a power of two.
#[derive(CubeType, Clone, Copy)]
struct Parts {
    power: f32,
    rest: f32,
}

/// Taylor's series of `e^t - 1`, t being the difference of x from a multiple of ln 2.
#[cube]
fn parts(x: f32) -> Parts {
    let n = f32::floor(x * comptime!(std::f32::consts::LOG2_E) + 0.5f32);
    let t = (x - n * LN2_HIGH) - n * LN2_LOW;
    let second = 0.5f32 + t * comptime!(1.0f32 / 6.0);
    let fourth = comptime!(1.0f32 / 24.0) + t * comptime!(1.0f32 / 120.0);
    let sixth = comptime!(1.0f32 / 720.0) + t * comptime!(1.0f32 / 5040.0);
    let square = t * t;
    Parts {
        power: exp2i(i32::cast_from(n)),
        rest: t + square * (second + square * (fourth + square * sixth)),
    }
}

/// `e^x`; beyond 87, as at 87.
#[cube]
pub fn exp(x: f32) -> f32 {
    let e = parts(clamp(x, -LIMIT, LIMIT));
    e.power + e.power * e.rest
}

/// `log2(x / y)` of normal numbers above zero: a whole number and the rest; zero where they are equal.
#[derive(CubeType, Clone, Copy)]
pub struct Log2 {
    pub whole: i32,
    pub rest: f32,
}

/// See [`Log2`].
#[cube]
pub fn log2_ratio(x: f32, y: f32) -> Log2 {
    let rest = LOG2_E_TWICE * (atanh(x) - atanh(y));
    // Contraction to fma may leave something of the difference.
    let equal = u32::reinterpret(x) == u32::reinterpret(y);
    Log2 { whole: exponent(x) - exponent(y), rest: select(equal, 0.0f32, rest) }
}

#[cube]
fn exponent(x: f32) -> i32 {
    i32::cast_from(u32::reinterpret(x) >> 23u32)
}

/// `ln(x / sqrt 2) / 2`, of the significand between 1 and 2, by its series.
#[cube]
fn atanh(x: f32) -> f32 {
    let significand = f32::reinterpret((u32::reinterpret(x) & (BINADE - 1u32)) | ONE);
    let s = (significand - SQRT_2) / (significand + SQRT_2);
    let square = s * s;
    let fifth =
        comptime!(1.0f32 / 5.0) + square * (comptime!(1.0f32 / 7.0) + square * comptime!(1.0f32 / 9.0));
    s + s * square * (comptime!(1.0f32 / 3.0) + square * fifth)
}
