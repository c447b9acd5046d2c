//! The data of formats: values of codes, rounding modes, parameters and statistics of a call.

use crate::stable::{StableAbi, std_types::RVec};

use crate::{PluginError, Scales, number::numbered};

numbered! {
    /// The use of a minifloat's top exponent.
    Domain {
        /// Reserved for infinities and NaN, as in IEEE 754.
        IEEE = 0,
        /// Used for numbers; the all-ones code is NaN (OCP OFP8 E4M3).
        FN = 1,
        /// Used for numbers; every code is finite.
        FIN = 2,
    }
}

impl Domain {
    /// All domains, by their numbers.
    pub const ALL: [Self; 3] = [Self::IEEE, Self::FN, Self::FIN];

    /// The domain's name in run files: `ieee`, `fn`, `fin`; `None` for a domain unknown to this version.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::IEEE => "ieee",
            Self::FN => "fn",
            Self::FIN => "fin",
            _ => return None,
        })
    }
}

/// A sign-magnitude binary float with gradual underflow: 1 + `exponent_bits` + `significand_bits` bits.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Minifloat {
    /// Exponent bits, 0 to 8.
    pub exponent_bits: u32,
    /// Stored significand bits, 0 to 10 (the implicit one is not counted).
    pub significand_bits: u32,
    /// Exponent bias: `2^(E-1) - 1`, 0 when `E <= 1`.
    pub bias: i32,
    /// The use of the top exponent.
    pub domain: Domain,
}

/// The values of a format's codes; everything else is derived from them.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub enum FormatSpec {
    /// A minifloat.
    Minifloat(Minifloat),
    /// Any other format: `values[code]`, f32, 2^bits of them (posits, logarithmic, integer, lookup). At least two
    /// finite values differ, and one is above 0.
    Table(RVec<f32>),
}

numbered! {
    /// The rounding of a value between two grid points.
    Rounding {
        /// To the nearest, by the format's thresholds; ties to the even code.
        NEAREST_EVEN = 0,
        /// To the nearest, by the format's thresholds; ties away from zero.
        NEAREST_AWAY = 1,
        /// Toward zero.
        TOWARD_ZERO = 2,
        /// Up with probability (x-a)/(b-a) between neighbours a < b; random bits keyed by [`RandomKey`].
        STOCHASTIC = 3,
    }
}

impl Rounding {
    /// All modes, by their numbers.
    pub const ALL: [Self; 4] = [Self::NEAREST_EVEN, Self::NEAREST_AWAY, Self::TOWARD_ZERO, Self::STOCHASTIC];

    /// The mode in words; `None` for a mode unknown to this version.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NEAREST_EVEN => "to nearest, ties to even",
            Self::NEAREST_AWAY => "to nearest, ties away from zero",
            Self::TOWARD_ZERO => "toward zero",
            Self::STOCHASTIC => "stochastically",
            _ => return None,
        })
    }

    /// The error of a format that does not support this mode.
    #[must_use]
    pub fn unsupported(self) -> PluginError {
        PluginError::unsupported(match self.name() {
            Some(name) => format!("it does not round {name}"),
            None => format!("it does not know rounding mode {}", self.0),
        })
    }
}

/// The key of the random bits of one tensor at one step. The same key gives the same bits on every device, after every
/// resume and with any number of threads.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RandomKey {
    /// The run's seed.
    pub seed: u64,
    /// Training step, from 0. Below 2^32.
    pub step: u64,
    /// The number of the tensor, from 0. Below 2^32.
    pub tensor: u64,
    /// Index of the call's first element within the whole tensor.
    pub offset: u64,
}

/// Scales and rounding of one call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct QuantParams<'a> {
    /// Factors of the values before and after rounding, by block.
    pub scales: Scales<'a>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// The key of stochastic rounding's random bits; ignored by the other modes.
    pub key: RandomKey,
}

impl QuantParams<'static> {
    /// Scale 1, nearest-even.
    pub const IDENTITY: Self = QuantParams::nearest(Scales::ONE);
}

impl<'a> QuantParams<'a> {
    /// These scales, nearest-even.
    #[must_use]
    pub const fn nearest(scales: Scales<'a>) -> Self {
        let key = RandomKey { seed: 0, step: 0, tensor: 0, offset: 0 };
        Self { scales, rounding: Rounding::NEAREST_EVEN, key }
    }

    /// The parameters of a call that begins `elements` later.
    #[must_use]
    pub const fn skip(self, elements: u64) -> Self {
        let key = RandomKey { offset: self.key.offset.wrapping_add(elements), ..self.key };
        Self { scales: self.scales.skip(elements), key, ..self }
    }
}

/// The tolerance of overflow: a scaled element beyond the last finite value by at most this many units of the last
/// place of f32 does not count as overflow.
///
/// Scales are rounded, so the element that a scale maps to the largest value may exceed it by this much. It saturates
/// without a loss.
pub const OVERFLOW_ULPS: u32 = 2;

/// True if a scaled element counts as overflow in a format with finite values from `least` to `most`: it lies more than
/// [`OVERFLOW_ULPS`] outside this range, or is infinite. NaN never counts.
#[must_use]
pub fn overflows(scaled: f32, least: f32, most: f32) -> bool {
    let [least, most] = overflow_bounds([least, most]);
    scaled.is_infinite() || scaled < least || scaled > most
}

/// The values [`OVERFLOW_ULPS`] beyond the least and the largest finite value.
fn overflow_bounds([least, most]: [f32; 2]) -> [f32; 2] {
    let beyond = |value: f32, next: fn(f32) -> f32| (0..OVERFLOW_ULPS).fold(value, |value, _| next(value));
    [beyond(least, f32::next_down), beyond(most, f32::next_up)]
}

/// Statistics of one quantization call. To combine parts, counts and sums are added, and the larger `amax` is taken.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Default)]
pub struct QuantStats {
    /// Largest finite |x| before scaling; 0 if there is none.
    pub amax: f32,
    /// Elements whose scaled value is more than [`OVERFLOW_ULPS`] beyond the last finite value on its side, infinities
    /// included.
    pub overflow: u64,
    /// Non-zero elements rounded to zero.
    pub underflow: u64,
    /// NaN elements.
    pub nan: u64,
    /// Elements that are not zero (NaN included).
    pub nonzero: u64,
    /// Sum of x^2 over finite x.
    pub sum_x2: f64,
    /// Sum of (x_hat - x)^2 over finite x.
    pub sum_err2: f64,
    /// Sum of x * x_hat over finite x.
    pub sum_x_xhat: f64,
}

impl QuantStats {
    /// Adds one element `x`, rounded to `x_hat`; `overflowed` is true if it counts as overflow.
    pub fn add(&mut self, x: f32, x_hat: f32, overflowed: bool) {
        self.overflow += u64::from(overflowed);
        self.underflow += u64::from(x != 0.0 && x_hat == 0.0);
        self.nan += u64::from(x.is_nan());
        self.nonzero += u64::from(x != 0.0);
        if x.is_finite() {
            let (wide, x_hat) = (f64::from(x), f64::from(x_hat));
            self.amax = self.amax.max(x.abs());
            self.sum_x2 += wide * wide;
            self.sum_err2 += (x_hat - wide) * (x_hat - wide);
            self.sum_x_xhat += wide * x_hat;
        }
    }

    /// Adds elements `src`, rounded to `dst`, as [`Self::add`] does for each in turn, bit for bit. `scaled` are the
    /// scaled elements, `bounds` the least and the largest finite value, beyond which they [overflow](overflows).
    pub fn add_all(&mut self, src: &[f32], dst: &[f32], scaled: &[f32], bounds: [f32; 2]) {
        self.add_counts(src, dst, scaled, bounds);
        for (&x, &x_hat) in src.iter().zip(dst) {
            // What is not finite adds nothing.
            let [wide, x_hat] = if x.is_finite() { [x, x_hat].map(f64::from) } else { [0.0; 2] };
            self.sum_x2 += wide * wide;
            self.sum_err2 += (x_hat - wide) * (x_hat - wide);
            self.sum_x_xhat += wide * x_hat;
        }
    }

    /// Adds the sums of elements, in an order that processors compute fast: those of every fourth element first.
    pub(crate) fn add_sums_by_lanes(&mut self, src: &[f32], dst: &[f32]) {
        const LANES: usize = 4;
        let mut sums = [[0f64; LANES]; 3];
        let mut add = |src: &[f32], dst: &[f32]| {
            for (lane, (&x, &x_hat)) in src.iter().zip(dst).enumerate() {
                let [wide, x_hat] = if x.is_finite() { [x, x_hat].map(f64::from) } else { [0.0; 2] };
                sums[0][lane] += wide * wide;
                sums[1][lane] += (x_hat - wide) * (x_hat - wide);
                sums[2][lane] += wide * x_hat;
            }
        };
        let (pieces, rounded) = (src.chunks_exact(LANES), dst.chunks_exact(LANES));
        add(pieces.remainder(), rounded.remainder());
        pieces.zip(rounded).for_each(|(src, dst)| add(src, dst));
        let [x2, err2, x_xhat] = sums.map(|[a, b, c, d]| (a + b) + (c + d));
        self.sum_x2 += x2;
        self.sum_err2 += err2;
        self.sum_x_xhat += x_xhat;
    }

    /// Adds the counts and the largest magnitude of elements: see [`Self::add_all`].
    pub(crate) fn add_counts(&mut self, src: &[f32], dst: &[f32], scaled: &[f32], bounds: [f32; 2]) {
        // Counts of a piece fit into u32, of which a register holds more.
        const PIECE: usize = 1 << 16;
        let [least, most] = overflow_bounds(bounds);
        for ((src, dst), scaled) in src.chunks(PIECE).zip(dst.chunks(PIECE)).zip(scaled.chunks(PIECE)) {
            let (mut overflow, mut underflow, mut nan, mut nonzero, mut amax) = (0, 0, 0, 0, 0i32);
            for &scaled in scaled {
                overflow += u32::from(scaled.is_infinite() | (scaled < least) | (scaled > most));
            }
            for (&x, &x_hat) in src.iter().zip(dst) {
                underflow += u32::from((x != 0.0) & (x_hat == 0.0));
                nan += u32::from(x.is_nan());
                nonzero += u32::from(x != 0.0);
                // The order of magnitudes is that of their bits, which are positive as signed integers.
                amax = amax.max(if x.is_finite() { x.abs().to_bits().cast_signed() } else { 0 });
            }
            self.amax = self.amax.max(f32::from_bits(amax.cast_unsigned()));
            self.overflow += u64::from(overflow);
            self.underflow += u64::from(underflow);
            self.nan += u64::from(nan);
            self.nonzero += u64::from(nonzero);
        }
    }

    /// Adds the statistics of another part.
    pub fn merge(&mut self, other: &Self) {
        self.amax = self.amax.max(other.amax);
        self.overflow += other.overflow;
        self.underflow += other.underflow;
        self.nan += other.nan;
        self.nonzero += other.nonzero;
        self.sum_x2 += other.sum_x2;
        self.sum_err2 += other.sum_err2;
        self.sum_x_xhat += other.sum_x_xhat;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_overflow_in_every_range() {
        for most in [1.0, f32::MAX.next_down().next_down(), f32::MAX] {
            let counted = [f32::INFINITY, f32::NEG_INFINITY].map(|scaled| overflows(scaled, -most, most));
            assert_eq!(counted, [true; 2], "{most:e}");
            assert!(!overflows(f32::MAX.min(most), -most, most) && !overflows(f32::NAN, -most, most));
        }
        let [near, far] = [1f32.next_up().next_up(), 1f32.next_up().next_up().next_up()];
        assert_eq!([near, far, -far].map(|scaled| overflows(scaled, 0.0, 1.0)), [false, true, true]);
    }

    #[test]
    fn statistics_of_a_slice_are_those_of_its_elements() {
        let src = [0.3, -0.0, f32::NAN, f32::INFINITY, -7.0, 1e30, 1e-30, f32::NEG_INFINITY, 0.1, 2.0, -2.1];
        let scaled = src.map(|x| x * 3.0);
        let rounded = src.map(|x| if x.abs() < 0.2 { 0.0 } else { x.clamp(-2.0, 2.0) });
        let bounds = [-6.0, 6.0];
        let (mut each, mut all) = (QuantStats::default(), QuantStats::default());
        for ((x, y), scaled) in src.into_iter().zip(rounded).zip(scaled) {
            each.add(x, y, overflows(scaled, bounds[0], bounds[1]));
        }
        all.add_all(&src, &rounded, &scaled, bounds);
        assert_eq!(all, each);
        assert_eq!([all.overflow, all.underflow, all.nan, all.nonzero], [5, 2, 1, 10]);
    }
}
