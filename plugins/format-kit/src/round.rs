//! Rounding one f32 to a minifloat grid with integer operations only.
//!
//! Outcomes: NaN stays NaN; infinities and everything beyond the largest finite value saturate; the sign is
//! always kept, so -0 stays -0 and a tiny negative value becomes -0; f32 subnormals are ordinary numbers.
//! Subnormal results are rounded once, directly on the subnormal grid. There is no branch on data: loops
//! over [`Rounder::value`] vectorise. Loops, statistics and scaling are in [`crate::cpu`].
//!
//! An f32 magnitude is `m * 2^(e-150)`, with `e` its exponent field (at least 1) and `m < 2^24` its
//! significand. The grid's spacing there is `2^s` in units of m: `s = 23 - M` for normal results, more below.
//! Rounding splits m into `m >> s`, which belongs to the code, and `low`, which decides about the next code up.

use altgrad_plugin_api::{Domain, PluginError};

use crate::grid::{MinifloatGrid, canonical_bias, minifloat};

/// Bits of an f32 without its sign.
pub(crate) const MAGNITUDE: u32 = 0x7fff_ffff;
/// Bits of f32 infinity; NaN has more.
pub(crate) const INFINITY: u32 = 0x7f80_0000;

/// What rounding cuts off, and what the mode may look at to decide.
#[derive(Debug, Clone, Copy)]
pub struct Dropped {
    /// The bits below the grid's last one, in units of the f32's significand: `0 .. 2^shift`.
    low: u32,
    /// `2^(shift-1)`, the tie; from shift 25 on it is larger than any `low`.
    half: u32,
    /// `low`, and `2^shift` on top if the code below is odd.
    tail: u32,
    /// log2 of the spacing: 13 and more.
    shift: u32,
}

/// A rounding mode: whether to go to the next code away from zero.
pub trait Mode {
    /// Whether it uses its random word.
    const RANDOM: bool = false;

    /// The decision. Never true when nothing is cut off.
    fn up(dropped: Dropped, word: u32) -> bool;
}

/// To the nearest, ties to the even code (without significand bits this is not the even value of IEEE 754).
#[derive(Debug, Clone, Copy)]
pub struct NearestEven;

/// To the nearest, ties away from zero.
#[derive(Debug, Clone, Copy)]
pub struct NearestAway;

/// Toward zero.
#[derive(Debug, Clone, Copy)]
pub struct TowardZero;

/// Up with probability `low / 2^shift`, from a word uniform on `0 .. 2^32`.
#[derive(Debug, Clone, Copy)]
pub struct Stochastic;

impl Mode for NearestEven {
    #[inline(always)]
    fn up(Dropped { low, half, tail, .. }: Dropped, _: u32) -> bool {
        // The tie above an odd code is one pattern of bits: no shift by a different amount in each SIMD lane.
        (low > half) | (tail == half + (half << 1))
    }
}

impl Mode for NearestAway {
    #[inline(always)]
    fn up(Dropped { low, half, .. }: Dropped, _: u32) -> bool {
        low >= half
    }
}

impl Mode for TowardZero {
    #[inline(always)]
    fn up(_: Dropped, _: u32) -> bool {
        false
    }
}

impl Mode for Stochastic {
    const RANDOM: bool = true;

    /// Exact while `shift <= 32`. Wider cuts (values below 2^-8 of the smallest step) round the probability
    /// down to a multiple of 2^-32.
    #[inline(always)]
    fn up(Dropped { low, shift, .. }: Dropped, word: u32) -> bool {
        let threshold = (low << (32 - shift.min(32))) >> (shift.max(32) - 32).min(31);
        word < threshold
    }
}

/// Rounds to the grid with `E` exponent and `M` stored significand bits and the canonical bias.
#[derive(Debug, Clone, Copy)]
pub struct Rounder<const E: u32, const M: u32> {
    grid: MinifloatGrid,
    max_bits: u32,
    max_code: u32,
    /// 0 if there is none.
    nan_code: u32,
}

/// An f32 magnitude split at the grid's last bit.
struct Split {
    significand: u32,
    exponent_field: u32,
    /// `2^min(shift, 25)`.
    unit: u32,
    dropped: Dropped,
}

impl<const E: u32, const M: u32> Rounder<E, M> {
    /// f32 exponent field of `2^emin`: 1 to 128.
    const EMIN_FIELD: u32 = (1 - canonical_bias(E) + 127) as u32;

    /// f32 bits of code 1, `2^(emin - M)`.
    const CODE_ONE: u32 = {
        let field = Self::EMIN_FIELD as i32 - M as i32;
        if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) }
    };

    /// The rounder of one domain.
    ///
    /// # Errors
    /// As [`MinifloatGrid::new`].
    pub fn new(domain: Domain) -> Result<Self, PluginError> {
        let grid = MinifloatGrid::new(minifloat(E, M, domain)?)?;
        Ok(Self {
            grid,
            max_bits: grid.max_finite().to_bits(),
            max_code: grid.max_code().into(),
            nan_code: grid.nan_code().unwrap_or(0).into(),
        })
    }

    /// The grid it rounds to.
    #[must_use]
    pub fn grid(&self) -> MinifloatGrid {
        self.grid
    }

    /// f32 bits of the largest finite value.
    #[must_use]
    pub fn max_bits(&self) -> u32 {
        self.max_bits
    }

    /// `x` rounded, as a value. `word` is uniform random bits for [`Stochastic`], ignored by the rest.
    #[inline(always)]
    #[must_use]
    pub fn value<R: Mode>(&self, x: f32, word: u32) -> f32 {
        let bits = x.to_bits();
        let magnitude = bits & MAGNITUDE;
        let Split { significand, exponent_field, unit, dropped } = Self::split(magnitude);
        let up = R::up(dropped, word);
        let rounded_significand = (significand & unit.wrapping_neg()) + if up { unit } else { 0 };
        // Adding it to the exponent lets a carry cross into the next binade.
        let normal = rounded_significand.wrapping_add(exponent_field.wrapping_sub(1) << 23);
        // From shift 24 on nothing is kept: the neighbours are 0 and code 1. Only a random word goes up from below
        // half of code 1; at half of it, shift 24, the carry is right.
        let up_to_one = R::RANDOM && up && dropped.shift >= 24;
        let nonzero = if up_to_one { Self::CODE_ONE } else { normal };
        let rounded = if rounded_significand == 0 { 0 } else { nonzero }.min(self.max_bits);
        f32::from_bits(if magnitude > INFINITY { bits } else { rounded | (bits & !MAGNITUDE) })
    }

    /// `x` rounded, as a code with its sign. NaN gives the NaN code, or `None` if there is none.
    #[inline(always)]
    #[must_use]
    pub fn code<R: Mode>(&self, x: f32, word: u32) -> Option<u16> {
        (!x.is_nan() || self.grid.has_nan()).then(|| self.code_or_zero::<R>(x, word))
    }

    /// As [`Self::code`], with zero for a NaN that has no code.
    #[inline(always)]
    pub(crate) fn code_or_zero<R: Mode>(&self, x: f32, word: u32) -> u16 {
        let magnitude = x.to_bits() & MAGNITUDE;
        let Split { significand, exponent_field, dropped, .. } = Self::split(magnitude);
        let binade = exponent_field.max(Self::EMIN_FIELD) - Self::EMIN_FIELD;
        let below = (significand >> dropped.shift.min(25)) + (binade << M);
        let code = (below + u32::from(R::up(dropped, word))).min(self.max_code);
        let sign = (x.to_bits() >> 31) << (E + M);
        (if magnitude > INFINITY { self.nan_code } else { code } | sign) as u16
    }

    #[inline(always)]
    fn split(magnitude: u32) -> Split {
        let mut exponent_field = magnitude >> 23;
        if E == 8 {
            // f32 subnormals have the spacing of field 1 and no implicit one. Fewer exponent bits need not care:
            // there such numbers lie 50 and more bits below code 1, and every mode gives zero.
            exponent_field = exponent_field.max(1);
        }
        let significand = magnitude.wrapping_sub(exponent_field.wrapping_sub(1) << 23);
        let binade_field = exponent_field.min(Self::EMIN_FIELD);
        let shift = Self::EMIN_FIELD + 23 - M - binade_field;
        // Beyond 25 bits every significand is less than half a unit: nothing changes any more.
        let unit = 1u32 << shift.min(25);
        let mut tail = significand & (2 * unit - 1);
        if M == 0 {
            // The code's last bit is the implicit one (2^23 here), and each binade adds one code.
            tail ^= ((exponent_field - binade_field) & 1) << 23;
        }
        let dropped = Dropped { low: significand & (unit - 1), half: unit >> 1, tail, shift };
        Split { significand, exponent_field, unit, dropped }
    }
}
