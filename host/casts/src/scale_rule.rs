//! The power of two of a block's scale, derived from its elements: the exponent `e` of the decode scale `2^e`.
//!
//! Exponents are taken from the bits of f32, never from a logarithm, which is wrong near powers of two. The rule that
//! is no power of two by itself, [`Rule::Max`], is in [`crate::Scaling`].

use crate::{
    powers::{ceil_log2, exp2, floor_log2},
    range::Range,
};

/// The rule that derives a scale from a block. `target` and `emax` are the format's ([`Range`]); amax is the largest
/// finite magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Rule {
    /// amax is scaled to `target`: `encode = target / amax`, or `decode = amax / target` (Transformer Engine, torchao,
    /// DeepGEMM).
    #[default]
    Max,
    /// `2^(floor(log2 amax) - emax)`: OCP MX v1.0 section 6.3. Elements beyond the largest value saturate.
    Floor,
    /// `2^(ceil(log2 amax) - emax)`: torchao's CEIL.
    Ceil,
    /// As `Floor`, amax being rounded to the format's significand bits before, halves up: torchao's EVEN.
    Even,
    /// `amax * fl(1/target)` rounded up to a power of two: nothing saturates but by that rounding (Transformer Engine,
    /// torchao's RCEIL, cuBLAS).
    Rceil,
    /// `2^floor(log2(std * deviations/target + 1e-8))`, the standard deviation being that of the block about its mean:
    /// the forward pass of Quartet (arXiv:2505.14669). Not bit-identical to its kernels, whose sums have no fixed
    /// order.
    Rms {
        /// Standard deviations that are scaled to `target`, above 0: 2.92247856 for E2M1.
        deviations: f64,
    },
}

/// The statistics of a block that a scale may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BlockStatistics {
    /// Largest finite magnitude; 0 if there is none.
    pub amax: f32,
    /// True if an element is NaN or infinite.
    pub nonfinite: bool,
    /// True if an element is infinite.
    infinite: bool,
    /// The number of finite elements, their sum, and the sum of their squares.
    count: u64,
    sum: f64,
    squares: f64,
}

impl BlockStatistics {
    /// The statistics of a block of which only the largest finite magnitude is known: enough where
    /// [`Scaling::needs_amax_only`](crate::Scaling::needs_amax_only). Infinity stands for a block with infinities whose
    /// finite elements are zeros.
    #[must_use]
    pub fn of_amax(amax: f32) -> Self {
        let infinite = amax == f32::INFINITY;
        Self { amax: if infinite { 0.0 } else { amax }, infinite, ..Self::default() }
    }

    /// Adds the elements of another block, as far as scales of the tensor depend on them.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.amax = self.amax.max(other.amax);
        self.nonfinite |= other.nonfinite;
        self.infinite |= other.infinite;
    }

    /// The same statistics with another largest magnitude.
    pub(crate) fn at(&self, amax: f32) -> Self {
        Self { amax, ..*self }
    }

    /// The statistics that give a decode scale larger by a factor.
    pub(crate) fn scaled(&self, factor: f32) -> Self {
        Self { amax: self.amax * factor, ..*self }
    }

    /// True if the block has an infinity, and its finite elements are zeros: no magnitude gives a scale.
    #[inline(always)]
    pub(crate) fn is_infinite(&self) -> bool {
        self.infinite && self.amax == 0.0
    }

    /// Adds elements. `with_deviation`: also to what their standard deviation needs.
    #[inline(always)]
    pub(crate) fn add_all(&mut self, values: &[f32], with_deviation: bool) {
        const INFINITY: u32 = 0x7f80_0000;
        // Magnitudes compare like their bits.
        let mut most = 0;
        for x in values {
            most = most.max(x.to_bits() & 0x7fff_ffff);
        }
        if with_deviation || most >= INFINITY {
            values.iter().for_each(|x| self.add(*x));
        } else {
            self.amax = self.amax.max(f32::from_bits(most));
        }
    }

    /// The statistics of some elements, as scales of a rule depend on them.
    #[must_use]
    pub fn of(values: &[f32], rule: Rule) -> Self {
        let mut block = Self::default();
        block.add_all(values, matches!(rule, Rule::Rms { .. }));
        block
    }

    /// Adds an element.
    pub fn add(&mut self, x: f32) {
        if x.is_finite() {
            let wide = f64::from(x);
            self.amax = self.amax.max(x.abs());
            self.count += 1;
            self.sum += wide;
            self.squares += wide * wide;
        } else {
            self.nonfinite = true;
            self.infinite |= x.is_infinite();
        }
    }

    /// Standard deviation of the finite elements about their mean, rounded to f32; 0 without any.
    fn deviation(&self) -> f32 {
        let count = self.count.max(1) as f64;
        let mean = self.sum / count;
        (self.squares / count - mean * mean).max(0.0).sqrt() as f32
    }
}

impl Rule {
    /// The exponent of the decode scale, before clamping to the storage range, of a block with `amax > 0`. `None`:
    /// amax, rounded, is infinite. `Max` has none of its own and is treated as `Rceil`.
    #[inline(always)]
    pub(crate) fn exponent(
        self,
        range: &Range,
        amax: f32,
        statistics: &BlockStatistics,
        margin: i32,
    ) -> Option<i32> {
        let emax = range.emax() - margin;
        Some(match self {
            Self::Floor => floor_log2(amax) - emax,
            Self::Ceil => ceil_log2(amax) - emax,
            Self::Even => {
                let half = 1u32 << 22 >> range.significand_bits.unwrap_or(0);
                let rounded = f32::from_bits(amax.to_bits() + half);
                if !rounded.is_finite() {
                    return None;
                }
                floor_log2(rounded) - emax
            }
            Self::Max | Self::Rceil => {
                let ratio = amax * (1.0 / (range.target * exp2(-margin)).min(f32::MAX));
                // Below 2^-127 nothing can be stored; a product that underflows to 0 is there too.
                if ratio == 0.0 { -127 } else { ceil_log2(ratio) }
            }
            Self::Rms { .. } => self.exponent_of_deviation(range.target, statistics.deviation()),
        })
    }

    /// The exponent of the decode scale of a block with this standard deviation, under [`Rule::Rms`]; 0 under others.
    #[must_use]
    pub fn exponent_of_deviation(self, target: f32, deviation: f32) -> i32 {
        let Self::Rms { deviations } = self else { return 0 };
        floor_log2(deviation * (deviations / f64::from(target)) as f32 + 1e-8)
    }
}
