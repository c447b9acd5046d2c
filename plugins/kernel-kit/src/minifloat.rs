//! Rounding to any minifloat with the canonical bias: what a format uses where it has nothing better.
//!
//! An f32 magnitude is `significand * 2^(exponent-150)`, with `exponent` its exponent field and
//! `significand < 2^24`. The grid's spacing there is `2^shift` in those units: `shift = 23 - M` for normal results, more
//! below. Rounding gives a number of such steps.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::rounder::{Mode, Rounder, chance};

/// Bit counts of a minifloat: 0 to 8 exponent bits, 0 to 10 stored significand bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Exponent bits.
    pub exponent: u32,
    /// Stored significand bits.
    pub significand: u32,
}

impl Shape {
    /// A shape.
    #[must_use]
    pub const fn new(exponent: u32, significand: u32) -> Self {
        Self { exponent, significand }
    }

    /// f32 exponent field of the smallest normal number, `2^emin`: 1 to 128.
    #[must_use]
    pub const fn emin_field(self) -> u32 {
        if self.exponent <= 1 { 128 } else { 129 - (1 << (self.exponent - 1)) }
    }

    /// f32 bits of code 1, `2^(emin - M)`.
    #[must_use]
    pub const fn code_one(self) -> u32 {
        let (emin, significand) = (self.emin_field(), self.significand);
        if emin > significand { (emin - significand) << 23 } else { 1 << (22 + emin - significand) }
    }

    /// Turns the f32 bits of a subnormal code's integer into those of its value: `(emin - M)` exponents, modulo 2^32.
    const fn subnormal_offset(self) -> u32 {
        self.emin_field().wrapping_sub(self.significand).wrapping_sub(127) << 23
    }
}

/// The grid with these bit counts, by nothing but the generic rounding: 2 to 16 bits in all.
pub struct Minifloat<const EXPONENT: u32, const SIGNIFICAND: u32>;

#[cube]
impl<const EXPONENT: u32, const SIGNIFICAND: u32> Rounder for Minifloat<EXPONENT, SIGNIFICAND> {
    const BITS: u32 = 1 + EXPONENT + SIGNIFICAND;

    fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        value(magnitude, word, mode, comptime!(Shape::new(EXPONENT, SIGNIFICAND)))
    }

    fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        code(magnitude, word, mode, comptime!(Shape::new(EXPONENT, SIGNIFICAND)))
    }

    fn decode(code: u32) -> u32 {
        decode(code, comptime!(Shape::new(EXPONENT, SIGNIFICAND)))
    }
}

/// A magnitude rounded to a whole number of grid steps.
#[derive(CubeType, Clone, Copy)]
struct Steps {
    /// How many.
    count: u32,
    /// log2 of a step in units of the f32's significand, at most 25: beyond it nothing but zero and one step is left.
    shift: u32,
    /// Exponent field of the magnitude.
    exponent: u32,
    /// Binades between the grid's first normal one and this one.
    binade: u32,
}

/// A magnitude rounded, as a magnitude.
#[cube]
pub fn value(magnitude: u32, word: u32, #[comptime] mode: Mode, #[comptime] shape: Shape) -> u32 {
    let steps = steps(magnitude, word, mode, shape);
    // Adding it to the exponent lets a carry cross into the next binade.
    let normal = (steps.count << steps.shift) + ((steps.exponent - 1u32) << 23u32);
    if comptime!(mode == Mode::Stochastic) {
        // Only a random word goes up from below half of code 1, where the exponent is not code 1's.
        let small = select(steps.count == 0u32, 0u32, comptime!(shape.code_one()));
        select(steps.shift >= 24u32, small, normal_or_zero(steps.count, normal))
    } else {
        normal_or_zero(steps.count, normal)
    }
}

#[cube]
fn normal_or_zero(count: u32, normal: u32) -> u32 {
    select(count == 0u32, 0u32, normal)
}

/// A magnitude rounded, as a code.
#[cube]
pub fn code(magnitude: u32, word: u32, #[comptime] mode: Mode, #[comptime] shape: Shape) -> u32 {
    let steps = steps(magnitude, word, mode, shape);
    steps.count + (steps.binade << comptime!(shape.significand))
}

/// The magnitude of a finite code.
#[cube]
pub fn decode(code: u32, #[comptime] shape: Shape) -> u32 {
    let normal = (code << comptime!(23 - shape.significand)) + comptime!((shape.emin_field() - 1) << 23);
    if comptime!(shape.exponent == 8) {
        // The subnormals of both formats coincide.
        normal
    } else {
        // An integer is an f32 exactly, and its value times a power of two is an addition to the exponent.
        let integer = u32::reinterpret(f32::cast_from(code));
        let subnormal = select(code == 0u32, 0u32, integer + comptime!(shape.subnormal_offset()));
        select(code < comptime!(1u32 << shape.significand), subnormal, normal)
    }
}

#[cube]
fn steps(magnitude: u32, word: u32, #[comptime] mode: Mode, #[comptime] shape: Shape) -> Steps {
    let emin = comptime!(shape.emin_field());
    let field = magnitude >> 23u32;
    // f32 subnormals have the spacing of field 1 and no implicit one. Fewer than 8 exponent bits need not care: there
    // such numbers lie 50 and more bits below code 1, and every mode gives zero.
    let exponent = if comptime!(shape.exponent == 8) { max(field, 1u32) } else { field };
    let significand = magnitude - ((exponent - 1u32) << 23u32);
    let below_emin = min(exponent, emin);
    let binade = exponent - below_emin;
    let wide = comptime!(shape.emin_field() + 23 - shape.significand) - below_emin;
    let shift = min(wide, 25u32);
    let count = match comptime!(mode) {
        Mode::NearestEven => {
            let floor = significand >> shift;
            // Without significand bits the code's last bit is the implicit one, and each binade adds one code.
            let code = if comptime!(shape.significand == 0) { floor + binade } else { floor };
            (significand + (half(shift) - 1u32) + (code & 1u32)) >> shift
        }
        Mode::NearestAway => (significand + half(shift)) >> shift,
        Mode::TowardZero => significand >> shift,
        Mode::Stochastic => {
            let low = significand & ((1u32 << shift) - 1u32);
            (significand >> shift) + u32::cast_from(word < chance(low, wide))
        }
    };
    Steps { count, shift, exponent, binade }
}

/// Half a step; `shift` is 13 and more.
#[cube]
fn half(shift: u32) -> u32 {
    1u32 << (shift - 1u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_the_family() {
        let rows = [
            (Shape::new(0, 7), 2f32.powi(1), 2f32.powi(-6)),
            (Shape::new(1, 6), 2f32.powi(1), 2f32.powi(-5)),
            (Shape::new(4, 3), 2f32.powi(-6), 2f32.powi(-9)),
            (Shape::new(5, 2), 2f32.powi(-14), 2f32.powi(-16)),
            (Shape::new(7, 0), 2f32.powi(-62), 2f32.powi(-62)),
            (Shape::new(8, 7), f32::MIN_POSITIVE, f32::from_bits(1 << 16)),
        ];
        for (shape, min_normal, code_one) in rows {
            assert_eq!(f32::from_bits(shape.emin_field() << 23), min_normal, "{shape:?}");
            assert_eq!(f32::from_bits(shape.code_one()), code_one, "{shape:?}");
        }
    }
}
