//! Grids of equal steps: no binades, hence no carries, no subnormals, and codes that are integers.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::rounder::{Mode, Rounder, chance};

/// The grid of `BITS` bits a code, sign included, on which code c is `c * 2^-FRACTION`. `BITS` is 2 to 16, `FRACTION`
/// less than 100.
pub struct Linear<const BITS: u32, const FRACTION: u32>;

#[cube]
impl<const BITS: u32, const FRACTION: u32> Rounder for Linear<BITS, FRACTION> {
    const BITS: u32 = BITS;

    fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        Self::decode(Self::code(magnitude, word, mode))
    }

    fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        // x = significand * 2^(field-150): so many steps and a rest of `wide` bits, 150 - FRACTION - field. A rest of
        // less than 24 - BITS means more steps than there are codes.
        let field = magnitude >> 23u32;
        let significand = (magnitude & 0x007f_ffffu32) | 0x0080_0000u32;
        let wide = comptime!(150 - FRACTION) - min(field, comptime!(126 + BITS - FRACTION));
        let shift = min(wide, 25u32);
        let low = significand & ((1u32 << shift) - 1u32);
        let floor = significand >> shift;
        let half = 1u32 << (shift - 1u32);
        let up = match comptime!(mode) {
            Mode::NearestEven => low + (floor & 1u32) > half,
            Mode::NearestAway => low >= half,
            Mode::TowardZero => false,
            Mode::Stochastic => word < chance(low, wide),
        };
        floor + u32::cast_from(up)
    }

    fn decode(code: u32) -> u32 {
        // An integer is an f32 exactly, and its value times a power of two is a subtraction from the exponent.
        let integer = u32::reinterpret(f32::cast_from(code));
        select(code == 0u32, 0u32, integer - comptime!(FRACTION << 23))
    }
}
