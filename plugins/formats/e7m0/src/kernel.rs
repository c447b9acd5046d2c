//! How E7M0 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Without significand bits rounding is of the f32's exponent field alone, and code and value differ by a shift. The cell
//! between zero and 2^-62 is as wide as the one above it, and ties go to the even code: both need a word of their own.

use altgrad_kernel_kit::prelude::*;

/// The grid of E7M0 in all of its domains.
pub struct E7M0;

/// f32 exponent field of the value before code 1: fields above it are codes.
const ZERO_FIELD: u32 = 64;

#[cube]
impl Rounder for E7M0 {
    const BITS: u32 = 8;

    fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        Self::decode(Self::code(magnitude, word, mode))
    }

    fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        let field = magnitude >> 23u32;
        let below = magnitude & 0x007f_ffffu32;
        // The cell below 2^-62 is as wide as the one above it: its middle, 2^-63, is itself a power of two.
        let under = field <= ZERO_FIELD;
        let floor = select(under, 0u32, field - ZERO_FIELD);
        let up = match comptime!(mode) {
            Mode::NearestEven => select(
                under,
                magnitude > comptime!(ZERO_FIELD << 23),
                below + (floor & 1u32) > 0x0040_0000u32,
            ),
            Mode::NearestAway => {
                select(under, magnitude >= comptime!(ZERO_FIELD << 23), below >= 0x0040_0000u32)
            }
            Mode::TowardZero => false,
            Mode::Stochastic => {
                let significand = below | 0x0080_0000u32;
                let wide = 88u32 - min(field, 65u32);
                word < chance(select(under, significand, below), wide)
            }
        };
        floor + u32::cast_from(up)
    }

    fn decode(code: u32) -> u32 {
        select(code == 0u32, 0u32, (code + ZERO_FIELD) << 23u32)
    }
}
