//! Rounding among a format's values by search: what a C format does not do itself.
//!
//! Exact for every format of up to 16 bits and every f32, in tens of nanoseconds an element. A tie goes to the neighbour whose
//! code is even; where that says nothing, to the upper one. Stochastic rounding is not done here.

use std::cmp::Ordering;

use altgrad_plugin_api::{PluginError, Rounding, ValueGrid};

/// A finite value and a code that means it.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f32,
    code: u16,
}

/// The values of a format, in both orders.
#[derive(Debug)]
pub(super) struct Values {
    by_code: Vec<f32>,
    /// Ascending, each value once, with its lowest code.
    points: Vec<Point>,
    nan: Option<u16>,
    negative_zero: Option<u16>,
}

impl Values {
    /// Those of a grid, which has two finite values at least.
    pub(super) fn new(grid: &ValueGrid) -> Self {
        let by_code: Vec<f32> = (0..grid.codes()).map(|code| grid.decode(code as u16)).collect();
        let coded = |(code, &value): (usize, &f32)| Point { value, code: code as u16 };
        let mut points: Vec<Point> = by_code.iter().enumerate().map(coded).collect();
        let first =
            |is: &dyn Fn(f32) -> bool| points.iter().find(|point| is(point.value)).map(|point| point.code);
        let nan = first(&f32::is_nan);
        let negative_zero = first(&|value| value.to_bits() == (-0f32).to_bits());
        points.retain(|point| point.value.is_finite());
        points.sort_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal));
        points.dedup_by(|next, kept| next.value == kept.value);
        Self { by_code, points, nan, negative_zero }
    }

    /// Number of codes.
    pub(super) fn codes(&self) -> usize {
        self.by_code.len()
    }

    /// Smallest and largest value.
    pub(super) fn range(&self) -> [f32; 2] {
        [self.points[0].value, self.points[self.points.len() - 1].value]
    }

    /// Whether NaN has a code.
    pub(super) fn has_nan(&self) -> bool {
        self.nan.is_some()
    }

    /// The value of a code, if it is one.
    pub(super) fn value(&self, code: u16) -> Option<f32> {
        self.by_code.get(usize::from(code)).copied()
    }

    /// The code of a value of the format, or of NaN.
    pub(super) fn code(&self, value: f32) -> Option<u16> {
        if value.is_nan() {
            return self.nan;
        }
        if value == 0.0 && value.is_sign_negative() && self.negative_zero.is_some() {
            return self.negative_zero;
        }
        let at = self.points.partition_point(|point| point.value < value);
        self.points.get(at).filter(|point| point.value == value).map(|point| point.code)
    }

    /// `x`, already scaled, rounded. NaN stays NaN, a zero has the sign of `x`.
    ///
    /// # Errors
    /// `UNSUPPORTED` for stochastic rounding.
    pub(super) fn round(&self, x: f32, rounding: Rounding) -> Result<f32, PluginError> {
        if rounding == Rounding::Stochastic {
            return Err(PluginError::unsupported("the format does not round stochastic")
                .with_hint("give it a function `round`"));
        }
        let [least, largest] = self.range();
        if x.is_nan() {
            return Ok(x);
        }
        let above = self.points.partition_point(|point| point.value <= x);
        let rounded = if above == 0 {
            least
        } else if above == self.points.len() {
            largest
        } else {
            let [low, high] = [self.points[above - 1], self.points[above]];
            if upward(x, low, high, rounding) { high.value } else { low.value }
        };
        Ok(if rounded == 0.0 { 0f32.copysign(x) } else { rounded })
    }
}

/// Whether `x` with `low <= x < high` is rounded to `high`.
fn upward(x: f32, low: Point, high: Point, rounding: Rounding) -> bool {
    let larger_magnitude = high.value.abs() >= low.value.abs();
    match (rounding, side(x, low.value, high.value)) {
        (Rounding::TowardZero, _) => low.value != x && !larger_magnitude,
        (_, Ordering::Less) => false,
        (_, Ordering::Greater) => true,
        (Rounding::NearestAway, Ordering::Equal) => larger_magnitude,
        (_, Ordering::Equal) => !low.code.is_multiple_of(2) || high.code.is_multiple_of(2),
    }
}

/// On which side of the middle of `low <= high` the number `x` is, exactly.
fn side(x: f32, low: f32, high: f32) -> Ordering {
    let (low, high) = (f64::from(low), f64::from(high));
    // The sum as an f64 and what is missing from it (Knuth's two-sum). Twice `x` is an f64: only if it is the sum, the rest decides.
    let sum = low + high;
    let part = sum - high;
    let rest = (low - part) + (high - (sum - part));
    let compared = (2.0 * f64::from(x)).total_cmp(&sum);
    if 2.0 * f64::from(x) == sum { 0.0.partial_cmp(&rest).unwrap_or(Ordering::Equal) } else { compared }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::FormatSpec;

    use super::*;

    fn values(by_code: &[f32]) -> Values {
        Values::new(&ValueGrid::new(&FormatSpec::Table(by_code.into())).unwrap())
    }

    #[test]
    fn every_mode_by_hand() {
        let values = values(&[0.0, 1.0, 4.0, f32::NAN, -3.0, 1e-30, f32::INFINITY, 1.0]);
        let rows: [(f32, [f32; 3]); 9] = [
            // The middle of 1e-30 and 1 is just above one half, which no f64 shows.
            (0.5, [1e-30; 3]),
            (2.5, [4.0, 4.0, 1.0]),
            (-1.5, [-0.0, -3.0, -0.0]),
            (-1.6, [-3.0, -3.0, -0.0]),
            (9.0, [4.0, 4.0, 4.0]),
            (f32::NEG_INFINITY, [-3.0, -3.0, -3.0]),
            (1.0, [1.0, 1.0, 1.0]),
            (-3.0, [-3.0, -3.0, -3.0]),
            (4e-31, [0.0, 0.0, 0.0]),
        ];
        for (x, expected) in rows {
            for (mode, expected) in
                [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero].into_iter().zip(expected)
            {
                let rounded = values.round(x, mode).unwrap();
                assert_eq!(rounded.to_bits(), expected.to_bits(), "{x} {mode:?}: {rounded}");
            }
        }
        assert!(values.round(f32::NAN, Rounding::NearestEven).unwrap().is_nan());
        assert!(values.round(0.0, Rounding::Stochastic).is_err());
        assert_eq!(
            [1.0, f32::NAN, -0.0, 2.0].map(|value| values.code(value)),
            [Some(1), Some(3), Some(0), None]
        );
    }
}
