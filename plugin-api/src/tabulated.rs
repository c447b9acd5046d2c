//! A complete format from the list of its codes' values: posits, logarithmic numbers, integers, lookup tables.
//!
//! It implements every rounding mode, statistics and histograms, as [`Format`](crate::Format) requires. Each element is
//! searched among the values, which is correct for any table and about ten times slower than a format's own arithmetic.
//! A format forwards its calls:
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

use std::cmp::Ordering;

use crate::{
    Conventions, ErrorKind, FormatSpec, PluginError, QuantParams, QuantStats, Rounding, Scales, ValueGrid,
    format::overflows, random::Words,
};

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
}

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
        Ok(Self { by_code, points, nan, negative_zero, conventions })
    }

    /// The same format with these conventions.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`]: see [`Conventions::check`].
    pub fn with_conventions(self, conventions: Conventions) -> Result<Self, PluginError> {
        conventions.check(&ValueGrid::new(&self.spec())?)?;
        Ok(Self { conventions, ..self })
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
        let (least, most) = (self.points[0].value, self.points[self.points.len() - 1].value);
        let mut words = words(params)?;
        let mut stats = QuantStats::default();
        for (range, [scale, inverse]) in params.scales.runs(src.len()) {
            for (&x, y) in src[range.clone()].iter().zip(&mut dst[range]) {
                let scaled = x * scale;
                let rounded = self.round(scaled, params.rounding, words());
                *y = rounded.map_or(f32::NAN, |point| signed(point.value, scaled)) * inverse;
                stats.add(x, *y, overflows(scaled, least, most));
                let code = self.code(rounded, scaled);
                if let Some(counter) = code.and_then(|code| histogram.get_mut(usize::from(code))) {
                    *counter += 1;
                }
            }
        }
        Ok(stats)
    }

    /// [`Format::encode`](crate::Format::encode), in every rounding mode.
    ///
    /// # Errors
    /// [`ErrorKind::VALUE`] for NaN if no code represents it; [`ErrorKind::UNSUPPORTED`] for an unknown rounding mode.
    pub fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        let mut words = words(params)?;
        for (range, [scale, _]) in params.scales.runs(src.len()) {
            for (&x, code) in src[range.clone()].iter().zip(&mut dst[range]) {
                let scaled = x * scale;
                *code = self
                    .code(self.round(scaled, params.rounding, words()), scaled)
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

    /// The code of the value to which `scaled` is rounded, if it has one.
    fn code(&self, rounded: Option<Point>, scaled: f32) -> Option<u16> {
        let Some(point) = rounded else { return self.nan };
        let negative_zero = self.negative_zero.filter(|_| point.value == 0.0 && scaled.is_sign_negative());
        negative_zero.or(Some(point.code))
    }

    /// The value to which a scaled value is rounded; none for NaN.
    fn round(&self, x: f32, rounding: Rounding, word: u32) -> Option<Point> {
        if x.is_nan() {
            return None;
        }
        let above = self.points.partition_point(|point| point.value <= x);
        let Some(low) = above.checked_sub(1).map(|below| self.points[below]) else {
            return Some(self.points[0]);
        };
        match self.points.get(above) {
            Some(&high) if low.value != x => {
                let threshold = self.conventions.thresholds.get(above - 1).copied();
                Some(between(x, [low, high], threshold, rounding, word))
            }
            _ => Some(low),
        }
    }
}

/// The neighbour to which a value strictly between two values is rounded. Rounding to nearest uses the threshold, or
/// else the midpoint.
fn between(x: f32, [low, high]: [Point; 2], threshold: Option<f32>, rounding: Rounding, word: u32) -> Point {
    let (wide, a, b) = (f64::from(x), f64::from(low.value), f64::from(high.value));
    // If zero lies strictly between them, neither is on the side of zero: rounding toward zero takes the nearer one.
    let encloses_zero = a < 0.0 && b > 0.0;
    let outer = b.abs() >= a.abs();
    let side = match threshold {
        Some(threshold) => wide.partial_cmp(&f64::from(threshold)).unwrap_or(Ordering::Equal),
        None => side(wide, a, b),
    };
    let up = match (rounding, side) {
        (Rounding::STOCHASTIC, _) => f64::from(word) < (wide - a) / (b - a) * 2f64.powi(32),
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
    };
    if up { high } else { low }
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
    if value == 0.0 { value.copysign(from) } else { value }
}

/// The random words of successive elements; 0 in modes that use none.
///
/// # Errors
/// `UNSUPPORTED`: the mode is unknown.
fn words(params: &QuantParams<'_>) -> Result<impl FnMut() -> u32 + use<>, PluginError> {
    params.rounding.name().ok_or_else(|| params.rounding.unsupported())?;
    let mut words = (params.rounding == Rounding::STOCHASTIC).then(|| Words::new(&params.key));
    Ok(move || words.as_mut().and_then(Iterator::next).unwrap_or(0))
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
