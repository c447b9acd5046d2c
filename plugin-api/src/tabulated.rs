//! A complete format from the list of its codes' values: posits, logarithmic numbers, integers, lookup tables.
//!
//! It implements every rounding mode, statistics and histograms, as [`Format`](crate::Format) requires. Each element is
//! searched among the values, which is correct for any table. A format forwards its calls:
//!
//! ```
//! use altgrad_plugin_api::{
//!     Config, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Scales, Tabulated,
//! };
//!
//! /// Sixteen codes: 0, 1, .. 7 and their negatives; -0 is NaN.
//! struct Int4(Tabulated);
//!
//! impl Format for Int4 {
//!     const DESCRIPTOR: Descriptor = Descriptor::format("INT4", "1.0.0", "Symmetric 4-bit integers");
//!
//!     fn new(_: &Config) -> Result<Self, PluginError> {
//!         let value = |code: u8| if code == 8 { f32::NAN } else { f32::from((code << 4) as i8 >> 4) };
//!         Ok(Self(Tabulated::new((0..16).map(value))?))
//!     }
//!     fn spec(&self) -> FormatSpec {
//!         self.0.spec()
//!     }
//!     fn fake_quant(
//!         &self, src: &[f32], dst: &mut [f32], params: &QuantParams<'_>, histogram: &mut [u64],
//!     ) -> Result<QuantStats, PluginError> {
//!         self.0.fake_quant(src, dst, params, histogram)
//!     }
//!     fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
//!         self.0.encode(src, dst, params)
//!     }
//!     fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
//!         self.0.decode(codes, dst, scales)
//!     }
//! }
//! ```

mod turns;

use std::{cmp::Ordering, sync::OnceLock};

use crate::stable::std_types::RVec;

use crate::{
    Conventions, ErrorKind, FormatSpec, PluginError, QuantParams, QuantStats, Rounding, Scales, ValueGrid,
    random::Words,
};
use turns::Turns;

/// Elements that are rounded together: they stay in the first-level cache.
const PIECE: usize = 256;

/// A format given by its decode table; see the [module](self).
#[derive(Debug, Clone)]
pub struct Tabulated {
    by_code: Vec<f32>,
    /// Finite values, ascending, each once.
    points: Vec<Point>,
    /// The code written for NaN, if there is one.
    nan: Option<u16>,
    /// The code written for -0, if there is one.
    negative_zero: Option<u16>,
    conventions: Conventions,
    /// Where each of [`MODES`] turns from a value to the next, once it was used.
    turns: [OnceLock<Turns>; MODES.len()],
}

/// The rounding modes. Stochastic rounding turns at the values, and decides between two of them by a random word.
const MODES: [Rounding; 4] =
    [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY, Rounding::TOWARD_ZERO, Rounding::STOCHASTIC];

/// A value and the lowest of its codes.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f32,
    code: u16,
}

impl Tabulated {
    /// The format whose code `i` has the `i`-th value. A code whose value is NaN represents NaN; codes of infinities
    /// are never written.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`]: the number of values is not a power of two up to 2^16, or fewer than two are finite or
    /// none above 0.
    pub fn new(values: impl IntoIterator<Item = f32>) -> Result<Self, PluginError> {
        let by_code: Vec<f32> = values.into_iter().collect();
        ValueGrid::new(&FormatSpec::Table(by_code.clone().into()))?;
        Ok(Self::of(by_code))
    }

    /// The table of a block, which may have no value above 0: see
    /// [`Conventions::codebooks`](crate::Conventions::codebooks).
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`]: the number of values is not a power of two up to 2^16, or fewer than two are finite.
    pub fn codebook(values: impl IntoIterator<Item = f32>) -> Result<Self, PluginError> {
        let by_code: Vec<f32> = values.into_iter().collect();
        // Of either sign, as the description's is above 0.
        let mirrored: RVec<f32> = by_code.iter().map(|value| -value).collect();
        ValueGrid::new(&FormatSpec::Table(by_code.clone().into()))
            .or_else(|error| ValueGrid::new(&FormatSpec::Table(mirrored)).map_err(|_| error))?;
        Ok(Self::of(by_code))
    }

    /// The format of a table that has finite values.
    fn of(by_code: Vec<f32>) -> Self {
        let codes = || (0..=u16::MAX).zip(by_code.iter().copied());
        let mut points: Vec<Point> = codes()
            .filter(|(_, value)| value.is_finite())
            .map(|(code, value)| Point { value, code })
            .collect();
        // A stable sort: the lowest code of a value comes first. Zeros of both signs are equal.
        points.sort_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal));
        points.dedup_by(|next, kept| next.value == kept.value);
        let first = |is: fn(f32) -> bool| codes().find(|(_, value)| is(*value)).map(|(code, _)| code);
        let nan = first(f32::is_nan);
        let negative_zero = first(|value| value == 0.0 && value.is_sign_negative());
        let conventions = Conventions::default();
        Self { by_code, points, nan, negative_zero, conventions, turns: Default::default() }
    }

    /// The least and the largest finite value.
    #[must_use]
    pub fn ends(&self) -> [f32; 2] {
        [self.points[0].value, self.points[self.points.len() - 1].value]
    }

    /// The finite values, ascending, each once.
    pub fn points(&self) -> impl Iterator<Item = f32> + '_ {
        self.points.iter().map(|point| point.value)
    }

    /// Where rounding goes from each finite value to the next: the least f32 that becomes the upper one, ascending. In
    /// stochastic rounding that is the upper value itself; below it, random bits decide.
    ///
    /// # Errors
    /// [`ErrorKind::UNSUPPORTED`] for a rounding mode unknown to this version.
    pub fn turns(&self, rounding: Rounding) -> Result<&[f32], PluginError> {
        self.turns_of(rounding).map(|turns| turns.least(self.points.len() - 1))
    }

    /// The value of each code.
    #[must_use]
    pub fn by_code(&self) -> &[f32] {
        &self.by_code
    }

    /// The same format with these conventions.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`]: see [`Conventions::check`].
    pub fn with_conventions(self, conventions: Conventions) -> Result<Self, PluginError> {
        conventions.check(&ValueGrid::new(&self.spec())?)?;
        Ok(Self { conventions, turns: Default::default(), ..self })
    }

    /// The result of [`Format::conventions`](crate::Format::conventions).
    #[must_use]
    pub fn conventions(&self) -> Conventions {
        self.conventions.clone()
    }

    /// The result of [`Format::spec`](crate::Format::spec).
    #[must_use]
    pub fn spec(&self) -> FormatSpec {
        FormatSpec::Table(self.by_code.clone().into())
    }

    /// [`Format::fake_quant`](crate::Format::fake_quant), in every rounding mode.
    ///
    /// # Errors
    /// [`ErrorKind::UNSUPPORTED`] for a rounding mode unknown to this version.
    pub fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        let bounds = self.ends();
        let mut rounder = self.rounder(params)?;
        let mut stats = QuantStats::default();
        for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
            let scales = params.scales.skip((piece * PIECE) as u64);
            let (scaled, indices) = rounder.round(src, &scales);
            for ((&x, &index), y) in scaled.iter().zip(indices).zip(&mut *dst) {
                let value = self.points[index as usize].value;
                *y = if x.is_nan() { f32::NAN } else { signed(value, x) };
            }
            if !histogram.is_empty() {
                for (&x, &index) in scaled.iter().zip(indices) {
                    let counter = self.code(index, x).and_then(|code| histogram.get_mut(usize::from(code)));
                    counter.into_iter().for_each(|counter| *counter += 1);
                }
            }
            for (range, [_, inverse]) in scales.runs(dst.len()) {
                dst[range].iter_mut().for_each(|y| *y *= inverse);
            }
            stats.add_counts(src, dst, scaled, bounds);
            stats.add_sums_by_lanes(src, dst);
        }
        Ok(stats)
    }

    /// [`Format::encode`](crate::Format::encode), in every rounding mode.
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`] for NaN if no code represents it; [`ErrorKind::UNSUPPORTED`] for an unknown rounding mode.
    pub fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        let mut rounder = self.rounder(params)?;
        for (piece, (src, dst)) in src.chunks(PIECE).zip(dst.chunks_mut(PIECE)).enumerate() {
            let (scaled, indices) = rounder.round(src, &params.scales.skip((piece * PIECE) as u64));
            for ((&x, &index), code) in scaled.iter().zip(indices).zip(dst) {
                *code = self
                    .code(index, x)
                    .ok_or_else(|| PluginError::new(ErrorKind::VALUE, "the format has no code for NaN"))?;
            }
        }
        Ok(())
    }

    /// [`Format::decode`](crate::Format::decode).
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`] for a code beyond the last.
    pub fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        for (range, [_, inverse]) in scales.runs(codes.len()) {
            for (&code, y) in codes[range.clone()].iter().zip(&mut dst[range]) {
                let value = self.by_code.get(usize::from(code)).ok_or_else(|| {
                    let last = self.by_code.len() - 1;
                    PluginError::new(ErrorKind::VALUE, format!("code {code} is beyond the last, {last}"))
                })?;
                *y = value * inverse;
            }
        }
        Ok(())
    }

    /// The code of the point to which `scaled` is rounded, if it has one.
    fn code(&self, index: u32, scaled: f32) -> Option<u16> {
        if scaled.is_nan() {
            return self.nan;
        }
        let point = self.points[index as usize];
        let negative_zero = self.negative_zero.filter(|_| point.value == 0.0 && scaled.is_sign_negative());
        negative_zero.or(Some(point.code))
    }

    /// # Errors
    /// `UNSUPPORTED`: the mode is unknown.
    fn turns_of(&self, mode: Rounding) -> Result<&Turns, PluginError> {
        let known = MODES.iter().position(|known| *known == mode).ok_or_else(|| mode.unsupported())?;
        Ok(self.turns[known].get_or_init(|| {
            Turns::new(&self.points().collect::<Vec<_>>(), |index, x| {
                let threshold = self.conventions.thresholds.get(index).copied();
                mode != Rounding::STOCHASTIC
                    && goes_up(x, [self.points[index], self.points[index + 1]], threshold, mode)
            })
        }))
    }

    /// # Errors
    /// `UNSUPPORTED`: the mode is unknown.
    fn rounder(&self, params: &QuantParams<'_>) -> Result<Rounder<'_>, PluginError> {
        let turns = self.turns_of(params.rounding)?;
        let words = (params.rounding == Rounding::STOCHASTIC).then(|| Words::new(&params.key));
        Ok(Rounder { points: &self.points, turns, words, scaled: [0.0; PIECE], indices: [0; PIECE] })
    }
}

/// A call on its way through a tensor, piece by piece.
struct Rounder<'a> {
    points: &'a [Point],
    turns: &'a Turns,
    /// Of stochastic rounding, one for each element.
    words: Option<Words>,
    scaled: [f32; PIECE],
    indices: [u32; PIECE],
}

impl Rounder<'_> {
    /// The scaled values of the next elements, and the index of the point to which each is rounded; some index for NaN.
    fn round(&mut self, src: &[f32], scales: &Scales<'_>) -> (&[f32], &[u32]) {
        let (scaled, indices) = (&mut self.scaled[..src.len()], &mut self.indices[..src.len()]);
        for (range, [scale, _]) in scales.runs(src.len()) {
            for (x, scaled) in src[range.clone()].iter().zip(&mut scaled[range]) {
                *scaled = x * scale;
            }
        }
        self.turns.indices(scaled, indices);
        if let Some(words) = &mut self.words {
            for ((&x, index), word) in scaled.iter().zip(&mut *indices).zip(words) {
                let [low, high] = [0, 1].map(|above| self.points.get(*index as usize + above));
                if let (Some(low), Some(high)) = (low, high) {
                    // Below the first value the fraction is negative, and NaN for NaN: neither goes up.
                    let (a, b) = (f64::from(low.value), f64::from(high.value));
                    *index += u32::from(f64::from(word) < (f64::from(x) - a) / (b - a) * 2f64.powi(32));
                }
            }
        }
        (scaled, indices)
    }
}

/// Whether `x`, strictly between two values, is rounded to the upper one. Rounding to nearest uses the threshold, or
/// else the midpoint.
fn goes_up(x: f32, [low, high]: [Point; 2], threshold: Option<f32>, rounding: Rounding) -> bool {
    let (wide, a, b) = (f64::from(x), f64::from(low.value), f64::from(high.value));
    // If zero lies strictly between them, neither is on the side of zero: rounding toward zero takes the nearer one.
    let encloses_zero = a < 0.0 && b > 0.0;
    let outer = b.abs() >= a.abs();
    let side = match threshold {
        Some(threshold) => wide.partial_cmp(&f64::from(threshold)).unwrap_or(Ordering::Equal),
        None => side(wide, a, b),
    };
    match (rounding, side) {
        (Rounding::TOWARD_ZERO, _) if !encloses_zero => !outer,
        (_, Ordering::Less) => false,
        (_, Ordering::Greater) => true,
        (Rounding::NEAREST_AWAY, Ordering::Equal) => outer,
        (_, Ordering::Equal) => match (low.code % 2, high.code % 2) {
            (0, 1) => false,
            (1, 0) => true,
            // Neither code is preferred: toward zero, so that negative values have negative results.
            _ => !outer,
        },
    }
}

/// The order of `x` and the midpoint of `a < b`; exact for f32.
fn side(x: f64, a: f64, b: f64) -> Ordering {
    // a + b = sum + rest exactly (Knuth's two-sum), |rest| being too small to matter unless 2 x = sum.
    let sum = a + b;
    let from_a = sum - b;
    let rest = (a - from_a) + (b - (sum - from_a));
    let compared = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    compared(2.0 * x, sum).then(compared(0.0, rest))
}

/// A zero has the sign of the value before rounding.
fn signed(value: f32, from: f32) -> f32 {
    // Without a branch: zeros come in no order that could be predicted.
    let sign = u32::from(value == 0.0) << 31;
    f32::from_bits((value.to_bits() & !sign) | (from.to_bits() & sign))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Codes 0 to 3: 0, 1, 4, -2; 3 and 1 are odd.
    fn table() -> Tabulated {
        Tabulated::new([0.0, 1.0, 4.0, -2.0]).unwrap()
    }

    fn rounded(x: f32, rounding: Rounding) -> f32 {
        let mut y = [9.0];
        let params = QuantParams { rounding, ..QuantParams::IDENTITY };
        table().fake_quant(&[x], &mut y, &params, &mut []).unwrap();
        y[0]
    }

    #[test]
    fn each_mode_takes_the_neighbour_it_should() {
        for (x, even, away, zero) in [
            (0.5, 0.0, 1.0, 0.0),
            (2.5, 4.0, 4.0, 1.0),
            (2.4, 1.0, 1.0, 1.0),
            (-1.0, 0.0, -2.0, 0.0),
            (-1.5, -2.0, -2.0, 0.0),
            (9.0, 4.0, 4.0, 4.0),
            (f32::NEG_INFINITY, -2.0, -2.0, -2.0),
        ] {
            let got = [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY, Rounding::TOWARD_ZERO]
                .map(|mode| rounded(x, mode));
            assert_eq!(got, [even, away, zero], "{x}");
        }
        assert!(rounded(f32::NAN, Rounding::NEAREST_EVEN).is_nan());
    }

    #[test]
    fn ties_between_values_of_both_signs_are_decided_by_magnitude() {
        // The codes of -2 and 1 are both even; -0.5 is their midpoint.
        let table = Tabulated::new([-2.0, 5.0, 1.0, 7.0]).unwrap();
        for (rounding, expected) in
            [(Rounding::NEAREST_EVEN, 1.0), (Rounding::NEAREST_AWAY, -2.0), (Rounding::TOWARD_ZERO, 1.0)]
        {
            let mut y = [9.0];
            let params = QuantParams { rounding, ..QuantParams::IDENTITY };
            table.fake_quant(&[-0.5], &mut y, &params, &mut []).unwrap();
            assert_eq!(y[0], expected, "{rounding:?}");
        }
    }

    #[test]
    fn declared_thresholds_decide_what_is_nearest() {
        // The values are -2, 0, 1, 4: nothing becomes 0 but itself, and 1 goes up to 4 from 2 on.
        let conventions = Conventions::default().turning_at(vec![0.0, 0.0, 2.0]);
        let table = table().with_conventions(conventions.clone()).unwrap();
        assert_eq!(table.conventions(), conventions);
        for (x, even, zero) in
            [(0.01, 1.0, 0.0), (-0.01, -2.0, 0.0), (1.99, 1.0, 1.0), (2.0, 4.0, 1.0), (0.0, 0.0, 0.0)]
        {
            for (rounding, expected) in [(Rounding::NEAREST_EVEN, even), (Rounding::TOWARD_ZERO, zero)] {
                let mut y = [9.0];
                let params = QuantParams { rounding, ..QuantParams::IDENTITY };
                table.fake_quant(&[x], &mut y, &params, &mut []).unwrap();
                assert_eq!(y[0], expected, "{x} {rounding:?}");
            }
        }
        assert!(table.with_conventions(Conventions::default().turning_at(vec![0.0])).is_err());
    }

    #[test]
    fn stochastic_rounding_follows_the_distance() {
        let src = [1.75; 40_000];
        let mut dst = [0.0; 40_000];
        let params = QuantParams { rounding: Rounding::STOCHASTIC, ..QuantParams::IDENTITY };
        table().fake_quant(&src, &mut dst, &params, &mut []).unwrap();
        let up = dst.iter().filter(|y| **y == 4.0).count();
        // A quarter of the way from 1 to 4; four standard errors are 346.
        assert!(up.abs_diff(10_000) < 350, "{up} of 40000");
        assert!(dst.iter().all(|y| [1.0, 4.0].contains(y)));
    }

    #[test]
    fn a_nan_without_a_code_is_refused_and_with_one_encoded() {
        let mut code = [9];
        let error = table().encode(&[f32::NAN], &mut code, &QuantParams::IDENTITY).unwrap_err();
        assert_eq!(error.kind, ErrorKind::VALUE);
        let with = Tabulated::new([0.0, 1.0, f32::NAN, -1.0]).unwrap();
        with.encode(&[f32::NAN], &mut code, &QuantParams::IDENTITY).unwrap();
        assert_eq!(code, [2]);
        assert!(with.decode(&[4], &mut [0.0], &Scales::ONE).is_err());
        let signed = Tabulated::new([0.0, 1.0, -0.0, -1.0]).unwrap();
        let (mut codes, mut histogram) = ([9; 3], [0; 4]);
        signed.encode(&[-0.1, 0.1, -0.0], &mut codes, &QuantParams::IDENTITY).unwrap();
        signed.fake_quant(&[-0.1, 0.1, -0.0], &mut [0.0; 3], &QuantParams::IDENTITY, &mut histogram).unwrap();
        assert_eq!((codes, histogram), ([2, 0, 2], [1, 0, 2, 0]));
        assert!(Tabulated::new([0.0, 1.0, 2.0]).is_err());
    }
}
