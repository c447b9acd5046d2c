//! Formats under test: one by the generic rounding of each kind, and two that use their structure.

use altgrad_kernel_kit::prelude::*;

/// A format that leaves everything to the generic rounding.
macro_rules! generic {
    ($name:ident, $exponent:literal, $significand:literal) => {
        pub struct $name;

        #[cube]
        impl Rounder for $name {
            const BITS: u32 = 1 + $exponent + $significand;

            fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
                minifloat::value(magnitude, word, mode, comptime!(Shape::new($exponent, $significand)))
            }

            fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
                minifloat::code(magnitude, word, mode, comptime!(Shape::new($exponent, $significand)))
            }

            fn decode(code: u32) -> u32 {
                minifloat::decode(code, comptime!(Shape::new($exponent, $significand)))
            }
        }
    };
}

generic!(E0M7, 0, 7);
generic!(E4M3, 4, 3);
generic!(BF16, 8, 7);

/// Linear: code c is c/32, everywhere. No binades, hence no carries and no subnormals.
pub struct E1M6;

#[cube]
impl Rounder for E1M6 {
    const BITS: u32 = 8;

    fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        Self::decode(Self::code(magnitude, word, mode))
    }

    fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        // x = significand * 2^(field-150), in units of 2^-5: shift right by 145 - field. From 2^4 on it saturates.
        let field = magnitude >> 23u32;
        let significand = (magnitude & 0x007f_ffffu32) | 0x0080_0000u32;
        let wide = 145u32 - min(field, 131u32);
        let shift = min(wide, 25u32);
        let low = significand & ((1u32 << shift) - 1u32);
        let floor = significand >> shift;
        let half = 1u32 << (shift - 1u32);
        let up = match comptime!(mode) {
            Mode::NearestEven => u32::cast_from(low + (floor & 1u32) > half),
            Mode::NearestAway => u32::cast_from(low >= half),
            Mode::TowardZero => 0u32,
            Mode::Stochastic => {
                let chance = (low << (32u32 - min(wide, 32u32))) >> min(max(wide, 32u32) - 32u32, 31u32);
                u32::cast_from(word < chance)
            }
        };
        floor + up
    }

    fn decode(code: u32) -> u32 {
        // An integer is exact in f32, and so is a 32nd of it.
        let integer = u32::reinterpret(f32::cast_from(code));
        select(code == 0u32, 0u32, integer - comptime!(5u32 << 23))
    }
}

/// Powers of two and zero: rounding is of the exponent field, code and value differ by a shift.
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
            Mode::NearestEven => {
                let tie = select(
                    under,
                    magnitude > comptime!(ZERO_FIELD << 23),
                    below + (floor & 1u32) > 0x0040_0000u32,
                );
                u32::cast_from(tie)
            }
            Mode::NearestAway => u32::cast_from(select(
                under,
                magnitude >= comptime!(ZERO_FIELD << 23),
                below >= 0x0040_0000u32,
            )),
            Mode::TowardZero => 0u32,
            Mode::Stochastic => {
                let significand = below | 0x0080_0000u32;
                let wide = 88u32 - min(field, 65u32);
                let low = select(under, significand, below);
                let chance = (low << (32u32 - min(wide, 32u32))) >> min(max(wide, 32u32) - 32u32, 31u32);
                u32::cast_from(word < chance)
            }
        };
        floor + up
    }

    fn decode(code: u32) -> u32 {
        select(code == 0u32, 0u32, (code + ZERO_FIELD) << 23u32)
    }
}
