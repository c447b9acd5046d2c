//! Overflow to infinity or NaN: conversions without saturation (OCP OFP8).

use altgrad_plugin_api::ValueGrid;

use crate::Rounding;

/// True if a scaled element, rounded as if the exponent had no limit, exceeds the largest value. `word` is the
/// element's random word.
#[must_use]
pub fn exceeds(rounding: Rounding, values: &ValueGrid, scaled: f32, word: u32) -> bool {
    let x = f64::from(scaled);
    let most = if x > 0.0 { f64::from(values.max_finite()) } else { f64::from(values.min_finite()) };
    if x.is_nan() || x.abs() <= most.abs() {
        return false;
    }
    let d = (x.abs() - most.abs()) / values.spacing(most);
    if d >= 1.0 {
        return x.is_infinite() || rounding != Rounding::TowardZero;
    }
    match rounding {
        Rounding::NearestEven => d > 0.5 || d == 0.5 && is_odd(values, most as f32),
        Rounding::NearestAway => d >= 0.5,
        Rounding::NearestZero => d > 0.5,
        Rounding::NearestUp => d > 0.5 || d == 0.5 && x > 0.0,
        Rounding::TowardZero => false,
        Rounding::Stochastic => f64::from(word) < d * 2f64.powi(32),
        Rounding::FewBits(few) => few.is_up(d, word),
    }
}

/// True if the lowest code of a value is odd.
fn is_odd(values: &ValueGrid, value: f32) -> bool {
    (0..values.codes()).find(|code| values.decode(*code as u16) == value).is_some_and(|code| code % 2 == 1)
}

/// The results of overflow on both sides of zero: infinities, or NaN in formats without; the codes of these. `None` if
/// the format has neither.
#[must_use]
pub fn overflow_codes(values: &ValueGrid) -> Option<[u16; 2]> {
    let codes = || (0..values.codes()).map(|code| code as u16);
    let of = |infinity: f32| {
        let nan = |code: &u16| values.decode(*code).is_nan();
        let is_negative = infinity < 0.0;
        let infinite = codes().find(|code| values.decode(*code) == infinity);
        // The largest code of NaN on the same side, which has all bits below the sign set.
        let nan_of_sign =
            || codes().rev().find(|code| nan(code) && values.decode(*code).is_sign_negative() == is_negative);
        infinite.or_else(nan_of_sign).or_else(|| codes().find(nan))
    };
    Some([of(f32::INFINITY)?, of(f32::NEG_INFINITY)?])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    fn values(exponent: u32, significand: u32, domain: Domain) -> ValueGrid {
        ValueGrid::new(&FormatSpec::Minifloat(minifloat(exponent, significand, domain).unwrap())).unwrap()
    }

    /// OFP8: E4M3 overflows above 464, where the tie stays, E5M2 from 61440 on, where the tie goes to infinity.
    #[test]
    fn overflow_begins_where_rounding_leaves_the_range() {
        let even = Rounding::NearestEven;
        let (e4m3, e5m2) = (values(4, 3, Domain::FN), values(5, 2, Domain::IEEE));
        let found =
            [464.0, 464.0f32.next_up(), -465.0, f32::INFINITY, 448.0].map(|x| exceeds(even, &e4m3, x, 0));
        assert_eq!(found, [false, true, true, true, false]);
        let found = [61440.0f32.next_down(), 61440.0, f32::NAN].map(|x| exceeds(even, &e5m2, x, 0));
        assert_eq!(found, [false, true, false]);
        assert_eq!(overflow_codes(&e4m3), Some([0x7f, 0xff]));
        assert_eq!(overflow_codes(&e5m2), Some([0x7c, 0xfc]));
        assert_eq!(overflow_codes(&values(2, 1, Domain::FIN)), None);
    }
}
