//! Rounding a piece of a slice, with statistics, in one loop that vectorises.
//!
//! Elements are taken in groups, each element of a group with accumulators of its own, and every step is the same for
//! all of a group: a compiler makes each a few instructions of any vector width, and the width changes no result. (It
//! does so for plain loops over arrays, but not for `array::map`.) Products are summed in f32, which is exact enough
//! for short chains of ordinary numbers; [`Seen::ordinary`] tells whether they were.

use altgrad_plugin_api::QuantStats;

pub(crate) use crate::groups::{Group, LANES, ROW};
use crate::{
    histogram::Histogram,
    round::{INFINITY, MAGNITUDE, Mode, Rounder},
};

/// Products too small for f32 lose less than 2^-126 each: nothing that matters to this sum and larger ones.
const SMALLEST_SUM: f64 = 1e-27;

/// The statistics of a piece.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The largest bits of a magnitude, NaN and infinities included.
    amax: u32,
    overflow: u32,
    underflow: u32,
    nonzero: u32,
    /// Bits that are set in any difference between result and input.
    error: u32,
    x2: f64,
    err2: f64,
    x_xhat: f64,
}

impl Seen {
    /// The statistics; `None` if there was something this way does not see rightly: NaN, infinities, products too large
    /// or too small for f32.
    pub(crate) fn ordinary(&self) -> Option<QuantStats> {
        let fits = |sum: f64, is_zero: bool| is_zero || (SMALLEST_SUM..f64::INFINITY).contains(&sum);
        let sums_fit = fits(self.x2, self.amax == 0)
            && fits(self.err2, self.error == 0)
            && fits(self.x_xhat, self.underflow == self.nonzero);
        (self.amax < INFINITY && sums_fit).then(|| QuantStats {
            amax: f32::from_bits(self.amax),
            overflow: self.overflow.into(),
            underflow: self.underflow.into(),
            nan: 0,
            nonzero: self.nonzero.into(),
            sum_x2: self.x2,
            sum_err2: self.err2,
            sum_x_xhat: self.x_xhat,
        })
    }
}

/// The scales of a piece.
pub(crate) trait LaneScales: Copy {
    /// Scales and inverses of the elements of a group.
    fn of(&self, group: usize) -> [Group<f32>; 2];
}

/// `dst[i] = round(src[i] * scale) * inverse`; with `CODES` their codes go to `histogram`, zero for a NaN without a
/// code.
///
/// Less than 2^32 elements. `words` are for modes that use them: a group for each of `src`.
#[inline(always)]
pub(crate) fn quantize<R: Mode, const CODES: bool, const E: u32, const M: u32, S: LaneScales>(
    rounder: &Rounder<E, M>,
    src: &[Group<f32>],
    dst: &mut [Group<f32>],
    scales: S,
    words: &[Group<u32>],
    histogram: &mut Histogram<'_>,
) -> Seen {
    let (mut amax, mut error) = ([0; LANES], [0; LANES]);
    let (mut overflow, mut underflow, mut nonzero) = ([0; LANES], [0; LANES], [0; LANES]);
    let (mut x2, mut err2, mut x_xhat) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for (row, (src, dst)) in src.chunks(ROW).zip(dst.chunks_mut(ROW)).enumerate() {
        let (mut row_x2, mut row_err2, mut row_x_xhat) = ([0f32; LANES], [0f32; LANES], [0f32; LANES]);
        for (place, (src, dst)) in src.iter().zip(dst).enumerate() {
            let words = if R::RANDOM { words[row * ROW + place] } else { [0; LANES] };
            let [scales, inverses] = scales.of(row * ROW + place);
            let mut codes = [0; LANES];
            for i in 0..LANES {
                let x = src[i];
                let scaled = x * scales[i];
                let rounded = rounder.value::<R>(scaled, words[i]);
                let y = rounded * inverses[i];
                dst[i] = y;
                if CODES {
                    codes[i] = rounder.code_of(rounded);
                }
                let magnitude = x.to_bits() & MAGNITUDE;
                amax[i] = magnitude.max(amax[i]);
                overflow[i] += u32::from(scaled.to_bits() & MAGNITUDE > rounder.overflow_bits());
                underflow[i] += u32::from((magnitude != 0) & (y.to_bits() & MAGNITUDE == 0));
                nonzero[i] += u32::from(magnitude != 0);
                let err = y - x;
                error[i] |= err.to_bits();
                row_x2[i] += x * x;
                row_err2[i] += err * err;
                row_x_xhat[i] += x * y;
            }
            if CODES {
                histogram.add(place, codes);
            }
        }
        for i in 0..LANES {
            x2[i] += f64::from(row_x2[i]);
            err2[i] += f64::from(row_err2[i]);
            x_xhat[i] += f64::from(row_x_xhat[i]);
        }
    }
    Seen {
        amax: amax.iter().fold(0, |a, &b| b.max(a)),
        overflow: overflow.iter().sum(),
        underflow: underflow.iter().sum(),
        nonzero: nonzero.iter().sum(),
        error: error.iter().fold(0, |a, b| a | b),
        x2: x2.iter().sum(),
        err2: err2.iter().sum(),
        x_xhat: x_xhat.iter().sum(),
    }
}

/// `codes[i] = code(round(src[i] * scale))`, zero for a NaN without a code. `words` as in [`quantize`].
#[inline(always)]
pub(crate) fn encode<R: Mode, const E: u32, const M: u32, S: LaneScales>(
    rounder: &Rounder<E, M>,
    src: &[Group<f32>],
    codes: &mut [Group<u16>],
    scales: S,
    words: &[Group<u32>],
) {
    for (group, (src, codes)) in src.iter().zip(codes).enumerate() {
        let words = if R::RANDOM { words[group] } else { [0; LANES] };
        let [scales, _] = scales.of(group);
        for i in 0..LANES {
            codes[i] = rounder.code_of(rounder.value::<R>(src[i] * scales[i], words[i]));
        }
    }
}
