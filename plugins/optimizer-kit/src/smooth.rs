//! The asinh chart: a code coordinate that is smooth through zero and at binade edges.
//!
//! `u = (2^M / ln 2) * asinh(x / b)` with `b = 2^emin / ln 2`, so `S = (ln 2 / 2^M) * sqrt(x^2 + b^2)`. A step goes 62
//! binades at most. No asinh is computed: from `sinh(a + d) = sinh(a) * e^d + sinh(d) / (sinh(a) + cosh(a))`, a step
//! needs `e^d` and `sinh d` only, and nothing cancels when it leads inward, as it would in the theorem of addition.
//! Only minifloats have one.

use std::f32::consts::LN_2;

use altgrad_plugin_api::grid::MinifloatGrid;

use crate::{
    codes::{SIGN, exp2i},
    exp::{NEAR, exp_and_sinh, exp_and_sinh_near},
    rule::{Chart, Geometry},
};

/// Longest step, `ln 2` a binade: its exponential's square fits in f32.
const LIMIT: f32 = 43.0;
/// 2^63, the largest shifted value of a grid. Squares of larger ones may exceed f32's largest value.
const END: f32 = (1u64 << 63) as f32;

/// The smooth replacement of a minifloat's code coordinate.
#[derive(Debug, Clone, Copy)]
pub struct Smooth {
    /// The factor that makes squares of values fit in f32, a power of two; and its inverse.
    shift: f32,
    unshift: f32,
    /// b^2, shifted twice.
    b_squared: f32,
    /// `ln 2 / 2^M`.
    share: f32,
    /// Largest finite value.
    max: f32,
}

impl Smooth {
    /// The chart of a grid; `None` if the squares of its values do not fit in f32: with 8 exponent bits.
    #[must_use]
    pub fn new(grid: &MinifloatGrid) -> Option<Self> {
        let (emin, m) = (grid.emin(), grid.spec().significand_bits as i32);
        let max = grid.max_finite();
        // 2^63 is the largest power of two whose square, and twice it, are numbers.
        let exponent = 63 - f64::from(max).log2().ceil() as i32;
        let shifted = emin + exponent;
        let b = exp2i(shifted.max(-63)) / LN_2;
        (shifted >= -63 && exponent.abs() < 126).then(|| Self {
            shift: exp2i(exponent),
            unshift: exp2i(-exponent),
            b_squared: b * b,
            share: LN_2 * exp2i(-m),
            max,
        })
    }

    /// As a device takes it: shift, its inverse, b^2 shifted, `ln 2 / 2^M`, largest value.
    pub(crate) fn words(&self) -> [f32; 5] {
        [self.shift, self.unshift, self.b_squared, self.share, self.max]
    }

    /// `sqrt(x^2 + b^2)`, shifted as its argument; `|x|` beyond the grid.
    #[inline(always)]
    fn radius(&self, shifted: f32) -> f32 {
        if shifted.abs() > END { shifted.abs() } else { (shifted * shifted + self.b_squared).sqrt() }
    }
}

impl Geometry for Smooth {
    #[inline(always)]
    fn spacing(&self, x: f32) -> f32 {
        self.share * (self.radius(x * self.shift) * self.unshift)
    }

    #[inline(always)]
    fn log2_spacing(&self, x: f32) -> f32 {
        self.spacing(x).log2()
    }
}

impl Chart for Smooth {
    const LONG: bool = true;

    #[inline(always)]
    fn ends(&self) -> (f32, f32) {
        (-self.max, self.max)
    }

    #[inline(always)]
    fn moved(&self, x: f32, codes: f32) -> f32 {
        self.moved_by(x, codes, |way| exp_and_sinh(way.clamp(-LIMIT, LIMIT)))
    }

    #[inline(always)]
    fn near(&self) -> f32 {
        NEAR / self.share
    }

    #[inline(always)]
    fn moved_near(&self, x: f32, codes: f32) -> f32 {
        self.moved_by(x, codes, exp_and_sinh_near)
    }
}

impl Smooth {
    /// `exp_and_sinh` gives e^d and sinh d.
    #[inline(always)]
    fn moved_by(&self, x: f32, codes: f32, exp_and_sinh: impl Fn(f32) -> (f32, f32)) -> f32 {
        let sign = x.to_bits() & SIGN;
        let shifted = x * self.shift;
        let (magnitude, radius) = (shifted.abs(), self.radius(shifted));
        let outward = f32::from_bits(codes.to_bits() ^ sign);
        let (exp, sinh) = exp_and_sinh(self.share * outward);
        let to = (magnitude * exp + sinh * (self.b_squared / (magnitude + radius))) * self.unshift;
        f32::from_bits(to.to_bits() ^ sign).clamp(-self.max, self.max)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, grid::minifloat};

    use super::*;

    #[test]
    fn ways_along_the_chart_are_those_of_asinh_in_f64() {
        for (e, m) in [(1, 6), (3, 4), (4, 3), (5, 2), (7, 0)] {
            let grid = MinifloatGrid::new(minifloat(e, m, Domain::FIN).unwrap()).unwrap();
            let chart = Smooth::new(&grid).unwrap();
            let b = 2f64.powi(grid.emin()) / std::f64::consts::LN_2;
            let per_unit = 2f64.powi(m as i32) / std::f64::consts::LN_2;
            let max = f64::from(grid.max_finite());
            for share in [0.0, 1e-6, 0.01, 0.3, 0.999, 1.0] {
                for x in [grid.max_finite() * share, -grid.max_finite() * share] {
                    let wide = f64::from(x);
                    let spacing = (wide * wide + b * b).sqrt() / per_unit;
                    assert!((f64::from(chart.spacing(x)) / spacing - 1.0).abs() < 4e-7, "E{e}M{m} at {x:e}");
                    for step in [0.0, 1e-5, -1e-5, 0.1, -0.1, 1.0, -1.0, 7.0, -7.0, -60.0] {
                        let u = per_unit * (wide / b).asinh() + f64::from(step);
                        let expected = (b * (u / per_unit).sinh()).clamp(-max, max);
                        let got = f64::from(chart.moved(x, step));
                        let allowed = 2e-6 * expected.abs().max(0.1 * b);
                        assert!(
                            (got - expected).abs() <= allowed,
                            "E{e}M{m}: {x:e} by {step}: {got:e}, expected {expected:e}"
                        );
                    }
                    assert_eq!(chart.moved(x, 0.0), x);
                }
            }
            assert!(chart.moved(1.0, f32::NAN).is_nan());
            assert_eq!(chart.moved(grid.max_finite(), f32::INFINITY), grid.max_finite());
        }
    }

    #[test]
    fn the_short_way_gives_the_same_bits() {
        for (e, m) in [(1, 6), (4, 3), (7, 0)] {
            let grid = MinifloatGrid::new(minifloat(e, m, Domain::FIN).unwrap()).unwrap();
            let chart = Smooth::new(&grid).unwrap();
            assert!((0.33..0.35).contains(&(chart.near() * chart.share)));
            crate::rule::assert_short_ways(&chart, grid.max_finite());
        }
    }

    #[test]
    fn squares_that_f32_cannot_hold_are_refused() {
        let bf16 = MinifloatGrid::new(minifloat(8, 7, Domain::IEEE).unwrap()).unwrap();
        assert!(Smooth::new(&bf16).is_none());
    }
}
