//! The part of a kernel that depends on the format: rounding of magnitudes.
//!
//! Everything around it (scaling, signs, NaN, saturation, statistics) is in the kernel of this crate. Rounding
//! is integer operations on the bits of an f32: floating-point tricks do not survive all shader compilers.

use altgrad_plugin_api::Rounding;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// Bits of an f32 without its sign.
pub const MAGNITUDE: u32 = 0x7fff_ffff;
/// The sign bit of an f32.
pub const SIGN: u32 = 0x8000_0000;
/// Bits of f32 infinity; NaN has more.
pub const INFINITY: u32 = 0x7f80_0000;
/// The bit that makes an f32 NaN quiet.
pub const QUIET: u32 = 0x0040_0000;

/// The rounding of a value between two grid points: a kernel text for each mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To the nearest; ties to the even code.
    NearestEven,
    /// To the nearest; ties away from zero.
    NearestAway,
    /// Toward zero.
    TowardZero,
    /// Up with probability (x-a)/(b-a), from one word of random bits.
    Stochastic,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NearestEven, Self::NearestAway, Self::TowardZero, Self::Stochastic];

    /// The contract's name for it.
    #[must_use]
    pub fn rounding(self) -> Rounding {
        match self {
            Self::NearestEven => Rounding::NEAREST_EVEN,
            Self::NearestAway => Rounding::NEAREST_AWAY,
            Self::TowardZero => Rounding::TOWARD_ZERO,
            Self::Stochastic => Rounding::STOCHASTIC,
        }
    }
}

/// The numbers of a format's grid, which its plugin sets when the text is requested:
/// [`GridConstants`](altgrad_plugin_api::kernel::table::GridConstants). All but the largest are for [`Rounder`]s that
/// use them.
#[derive(CubeType, Clone, Copy)]
pub struct Grid {
    /// f32 bits of the largest finite value, at which the kernel saturates.
    pub largest: u32,
    /// f32 bits of the smallest positive value.
    pub smallest: u32,
    /// f32 bits of `2^emin`.
    pub edge: u32,
    /// Stored significand bits.
    pub significand_bits: u32,
}

/// A number format's rounding, for use in a kernel. Magnitudes are the bits of an f32 without its sign.
///
/// `value` gets every magnitude there is. What it gives for NaN is ignored; from the largest finite value on (infinity
/// included) anything at least as large is right, for the kernel saturates. A variant that gives up its largest codes
/// to infinity or NaN therefore needs no code of its own.
#[cube]
pub trait Rounder: 'static + Send + Sync {
    /// A magnitude rounded to the grid, as a magnitude. `word` is uniform random bits for [`Mode::Stochastic`].
    fn value(magnitude: u32, word: u32, grid: &Grid, #[comptime] mode: Mode) -> u32;
}

/// The probability of going up, in units of 2^-32: it does if a random word is less. `low` are the bits cut off a
/// significand (less than 2^24), the lowest of `wide`, 1 and more. Exact up to 32 bits; wider cuts round it down.
#[cube]
pub fn chance(low: u32, wide: u32) -> u32 {
    (low << (32u32 - min(wide, 32u32))) >> min(max(wide, 32u32) - 32u32, 31u32)
}
