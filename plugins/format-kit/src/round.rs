//! Rounding one f32 to a minifloat grid.
//!
//! Outcomes: NaN stays NaN; infinities and everything beyond the largest finite value saturate; the sign is
//! always kept, so -0 stays -0 and a tiny negative value becomes -0; f32 subnormals are ordinary numbers.
//! Subnormal results are rounded once, directly on the subnormal grid. There is no branch on data: loops
//! over [`Rounder::value`] vectorise. Loops, statistics and scaling are in [`crate::cpu`].
//!
//! Saturation comes first: the largest finite value is on the grid, so a clamped value is rounded to it. A code is
//! derived from the rounded value, so the two cannot disagree.

use altgrad_plugin_api::{Domain, OVERFLOW_ULPS, PluginError};

use crate::grid::{MinifloatGrid, canonical_bias, minifloat};

/// Bits of an f32 without its sign.
pub(crate) const MAGNITUDE: u32 = 0x7fff_ffff;
/// Bits of f32 infinity; NaN has more.
pub(crate) const INFINITY: u32 = 0x7f80_0000;
/// The lowest bit of the exponent field.
const BINADE: u32 = 1 << 23;

/// A rounding mode.
pub trait Mode {
    /// True if it uses its random word.
    const RANDOM: bool = false;

    /// Rounds the bits of a magnitude, at most the largest finite value, to the bits of a value of the grid with `E`
    /// exponent and `M` stored significand bits. `word` is uniform random bits, if they are used.
    fn round<const E: u32, const M: u32>(magnitude: u32, word: u32) -> u32;
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

/// Up with the probability given by the position between the neighbours.
#[derive(Debug, Clone, Copy)]
pub struct Stochastic;

impl Mode for NearestEven {
    #[inline(always)]
    fn round<const E: u32, const M: u32>(magnitude: u32, _: u32) -> u32 {
        if M == 0 {
            nearest_power::<E>(magnitude)
        } else if E == 8 {
            // The spacing is the same multiple of f32's everywhere: half of it (less one, if the code is even) and cut.
            let odd = (magnitude >> (23 - M)) & 1;
            (magnitude + (1 << (22 - M)) - 1 + odd) & (u32::MAX << (23 - M))
        } else {
            // From `large` to twice that the spacing of f32 is the grid's spacing at this magnitude. Addition rounds to
            // the nearest and ties to the even significand, which belongs to the even code; the difference is exact.
            let large = f32::from_bits(binade::<E>(magnitude) + (23 - M) * BINADE);
            ((f32::from_bits(magnitude) + large) - large).to_bits()
        }
    }
}

/// To the nearest power of two, ties to the even code: codes are exponent fields less a constant.
#[inline(always)]
fn nearest_power<const E: u32>(magnitude: u32) -> u32 {
    let odd = ((magnitude >> 23) + emin_field(E) + 1) & 1;
    let normal = (magnitude + BINADE / 2 - 1 + odd) & INFINITY;
    // Between zero and code 1 the middle is half of code 1, and a tie goes to zero.
    let one = emin_field(E) * BINADE;
    let middle = if E == 8 { BINADE / 2 } else { one - BINADE };
    if magnitude > middle { normal.max(one) } else { 0 }
}

impl Mode for NearestAway {
    #[inline(always)]
    fn round<const E: u32, const M: u32>(magnitude: u32, _: u32) -> u32 {
        let below = binades_below::<E>(magnitude);
        // Half of code 1 and more is f32's binade below code 1.
        let up = if below <= M { (magnitude >> (22 - M + below)) & 1 == 1 } else { below == M + 1 };
        neighbour::<E, M>(magnitude, below, up)
    }
}

impl Mode for TowardZero {
    #[inline(always)]
    fn round<const E: u32, const M: u32>(magnitude: u32, _: u32) -> u32 {
        neighbour::<E, M>(magnitude, binades_below::<E>(magnitude), false)
    }
}

impl Mode for Stochastic {
    const RANDOM: bool = true;

    /// The probability is exact while at most 32 bits are dropped. Wider cuts (values below 2^-9 of code 1)
    /// round it down to a multiple of 2^-32.
    #[inline(always)]
    fn round<const E: u32, const M: u32>(magnitude: u32, word: u32) -> u32 {
        let below = binades_below::<E>(magnitude);
        // Shifted left by 32 less the number of dropped bits, only those remain. f32 subnormals have no implicit bit,
        // but in formats where that bit would remain they lie far below any value that a word rounds up.
        let significand = (magnitude & (BINADE - 1)) | BINADE;
        let exact = below.min(9 + M);
        let wide = (below - exact).min(31);
        let probability = (significand << (9 + M - exact)) >> wide;
        neighbour::<E, M>(magnitude, below, word < probability)
    }
}

/// The exponent field of the smallest normal number, 1 to 128.
const fn emin_field(exponent_bits: u32) -> u32 {
    (1 - canonical_bias(exponent_bits) + 127) as u32
}

/// The bits of the power of two whose binade has the spacing that holds at `magnitude`.
#[inline(always)]
fn binade<const E: u32>(magnitude: u32) -> u32 {
    (magnitude & INFINITY).max(emin_field(E) * BINADE)
}

/// The number of binades that `magnitude` lies below the smallest normal number: that many more bits are dropped.
#[inline(always)]
fn binades_below<const E: u32>(magnitude: u32) -> u32 {
    // With 8 exponent bits f32's subnormals are the format's.
    if E == 8 { 0 } else { (binade::<E>(magnitude) - (magnitude & INFINITY)) >> 23 }
}

/// The value at or below `magnitude`, or the next one up.
#[inline(always)]
fn neighbour<const E: u32, const M: u32>(magnitude: u32, below: u32, up: bool) -> u32 {
    if below > M {
        // Nothing is kept: the neighbours are zero and code 1, a normal f32.
        let one = emin_field(E).wrapping_sub(M).wrapping_mul(BINADE);
        return if up { one } else { 0 };
    }
    // Adding a unit, which is subtracting the mask, lets a carry cross into the next binade.
    let kept = u32::MAX << (23 - M + below).min(31);
    (if up { magnitude.wrapping_sub(kept) } else { magnitude }) & kept
}

/// Rounds to the grid with `E` exponent and `M` stored significand bits and the canonical bias.
#[derive(Debug, Clone, Copy)]
pub struct Rounder<const E: u32, const M: u32> {
    grid: MinifloatGrid,
    max_bits: u32,
    /// 0 if there is none.
    nan_code: u32,
}

impl<const E: u32, const M: u32> Rounder<E, M> {
    /// The rounder of one domain.
    ///
    /// # Errors
    /// As [`MinifloatGrid::new`].
    pub fn new(domain: Domain) -> Result<Self, PluginError> {
        let grid = MinifloatGrid::new(minifloat(E, M, domain)?)?;
        let nan_code = grid.nan_code().unwrap_or(0).into();
        Ok(Self { grid, max_bits: grid.max_finite().to_bits(), nan_code })
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

    /// f32 bits of the largest magnitude that does not count as overflow.
    #[must_use]
    pub fn overflow_bits(&self) -> u32 {
        self.max_bits + OVERFLOW_ULPS
    }

    /// `x` rounded, as a value. `word` is uniform random bits for [`Stochastic`], ignored by the rest.
    #[inline(always)]
    #[must_use]
    pub fn value<R: Mode>(&self, x: f32, word: u32) -> f32 {
        let bits = x.to_bits();
        let magnitude = bits & MAGNITUDE;
        let rounded = R::round::<E, M>(magnitude.min(self.max_bits), word);
        f32::from_bits(if magnitude > INFINITY { bits } else { rounded | (bits & !MAGNITUDE) })
    }

    /// `x` rounded, as a code with its sign. NaN gives the NaN code, or `None` if there is none.
    #[inline(always)]
    #[must_use]
    pub fn code<R: Mode>(&self, x: f32, word: u32) -> Option<u16> {
        (!x.is_nan() || self.grid.has_nan()).then(|| self.code_of(self.value::<R>(x, word)))
    }

    /// The code of a finite value of the grid; NaN has the NaN code, or zero if there is none.
    #[inline(always)]
    pub(crate) fn code_of(&self, value: f32) -> u16 {
        let bits = value.to_bits();
        let magnitude = bits & MAGNITUDE;
        let emin = emin_field(E) * BINADE;
        // Exponent field and significand are the code, but for a constant, once subnormal numbers have a binade of
        // their own below the first: adding 2^emin aligns them (f32's own are aligned already).
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(emin)).to_bits() - BINADE;
        let aligned = if E < 8 && magnitude < emin { subnormal } else { magnitude };
        let code = (aligned >> (23 - M)) - ((emin_field(E) - 1) << M);
        let sign = (bits >> 31) << (E + M);
        (if magnitude > INFINITY { self.nan_code } else { code } | sign) as u16
    }
}
