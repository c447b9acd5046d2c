//! Rounding to any minifloat, which scalars describe: one text serves all of them.
//!
//! An f32 magnitude is `significand * 2^(exponent-150)`, with `exponent` its exponent field and
//! `significand < 2^24`. The grid's spacing there is `2^shift` in those units: `shift = 23 - M` for normal results,
//! more below. Rounding gives a number of such steps.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::rounder::{Grid, Mode, Rounder, chance};

/// Every minifloat of up to 16 bits and 10 significand bits whose `2^emin` is a normal f32.
pub struct Minifloat;

#[cube]
impl Rounder for Minifloat {
    fn value(magnitude: u32, word: u32, grid: &Grid, #[comptime] mode: Mode) -> u32 {
        let steps = steps(magnitude, word, grid, mode);
        // Adding it to the exponent lets a carry cross into the next binade.
        let normal = (steps.count << steps.shift) + ((steps.exponent - 1u32) << 23u32);
        if comptime!(mode == Mode::Stochastic) {
            // Only a random word goes up from below half of code 1, where the exponent is not code 1's.
            let small = select(steps.count == 0u32, 0u32, grid.smallest);
            select(steps.shift >= 24u32, small, normal_or_zero(steps.count, normal))
        } else {
            normal_or_zero(steps.count, normal)
        }
    }
}

#[cube]
fn normal_or_zero(count: u32, normal: u32) -> u32 {
    select(count == 0u32, 0u32, normal)
}

/// A magnitude rounded to a whole number of grid steps.
#[derive(CubeType, Clone, Copy)]
struct Steps {
    /// The number of values.
    count: u32,
    /// log2 of a step in units of the f32's significand, at most 25: beyond it nothing but zero and one step is left.
    shift: u32,
    /// Exponent field of the magnitude; f32 subnormals have the spacing of field 1, and no implicit one.
    exponent: u32,
}

#[cube]
fn steps(magnitude: u32, word: u32, grid: &Grid, #[comptime] mode: Mode) -> Steps {
    let emin = grid.edge >> 23u32;
    let exponent = max(magnitude >> 23u32, 1u32);
    let significand = magnitude - ((exponent - 1u32) << 23u32);
    let below_emin = min(exponent, emin);
    let wide = emin + 23u32 - grid.significand_bits - below_emin;
    let shift = min(wide, 25u32);
    let count = match comptime!(mode) {
        Mode::NearestEven => {
            let floor = significand >> shift;
            // Without significand bits the code's last bit is the implicit one, and each binade adds one code.
            let binade = select(grid.significand_bits == 0u32, exponent - below_emin, 0u32);
            let code = floor + binade;
            (significand + (half(shift) - 1u32) + (code & 1u32)) >> shift
        }
        Mode::NearestAway => (significand + half(shift)) >> shift,
        Mode::TowardZero => significand >> shift,
        Mode::Stochastic => {
            let low = significand & ((1u32 << shift) - 1u32);
            (significand >> shift) + u32::cast_from(word < chance(low, wide))
        }
    };
    Steps { count, shift, exponent }
}

/// Half a step; `shift` is 13 and more.
#[cube]
fn half(shift: u32) -> u32 {
    1u32 << (shift - 1u32)
}
