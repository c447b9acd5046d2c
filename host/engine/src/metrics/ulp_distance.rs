//! Distances between weights, counted in codes of the format they are stored in (ULP).
//!
//! `|phi(k a) - phi(k b)|` with the code coordinate phi of docs/numerics.md, section 3.2 and the scale k; `k a` is the
//! f32 product that the format itself rounds. For a minifloat phi needs no logarithm: above `2^emin` it is the f32's
//! own bit pattern, shifted, because both count significand steps within binades; below, it is linear. That form costs
//! a few integer operations and vectorises. Other formats use their grid element by element.

use altgrad_plugin_api::ValueGrid;

/// Stored significand bits of f32.
const F32_BITS: i32 = 23;
/// Range of `emin` for which all constants of the closed form are normal f32 numbers.
const CLOSED: std::ops::RangeInclusive<i32> = -100..=100;

/// Measures in codes of one format at one scale.
#[derive(Debug, Clone)]
pub struct UlpDistance {
    grid: ValueGrid,
    scale: f32,
    closed: Option<Closed>,
}

/// The constants of the closed form. A fine step is a significand step of f32 at `2^emin` and above.
#[derive(Debug, Clone, Copy)]
struct Closed {
    scale: f32,
    /// `2^emin`: phi is linear below it.
    edge: f32,
    /// Codes per unit below the edge.
    codes_below: f32,
    /// Fine steps per unit below the edge.
    fine_below: f32,
    /// From the bit pattern of a magnitude above the edge to fine steps.
    offset: u32,
    /// Codes per fine step.
    fine: f32,
}

impl UlpDistance {
    /// The measure of weights stored as `round(scale * w)` on `grid`.
    #[must_use]
    pub fn new(grid: ValueGrid, scale: f32) -> Self {
        let closed = Closed::of(&grid, scale);
        Self { grid, scale, closed }
    }

    /// Writes the distance in codes between each pair; returns the number of pairs in different binades (values below
    /// `2^emin`, or below the smallest value of a table, count as of that binade). NaN where one of the two is not
    /// finite.
    ///
    /// Exact to f32's relative 2^-24 and, for a pair on both sides of `2^emin`, to `2^(M-24)` codes. All `[n]`.
    pub fn distances(&self, a: &[f32], b: &[f32], codes: &mut [f32]) -> u64 {
        match &self.closed {
            Some(closed) => closed_distances(closed, a, b, codes),
            None => self.searched_distances(a, b, codes),
        }
    }

    fn searched_distances(&self, a: &[f32], b: &[f32], codes: &mut [f32]) -> u64 {
        let lowest = match &self.grid {
            ValueGrid::Minifloat(grid) => grid.emin(),
            ValueGrid::Table(_) => exponent(self.grid.min_positive().into()),
        };
        let mut crossings = 0;
        for ((&a, &b), codes) in a.iter().zip(b).zip(codes) {
            let [a, b] = [a, b].map(|w| self.stored(w));
            *codes = (self.grid.coordinate(a) - self.grid.coordinate(b)).abs() as f32;
            if !(a.is_finite() && b.is_finite()) {
                *codes = f32::NAN;
            }
            crossings += u64::from(exponent(a).max(lowest) != exponent(b).max(lowest));
        }
        crossings
    }

    /// The stored value of a weight before rounding: `scale * w`.
    #[must_use]
    pub fn stored(&self, w: f32) -> f64 {
        (w * self.scale).into()
    }

    /// log2 of the spacing S at a weight, in weight units; NaN unless the weight is finite.
    #[must_use]
    pub fn log2_spacing(&self, w: f32) -> f64 {
        self.grid.spacing(self.stored(w)).log2() - f64::from(self.scale).log2()
    }

    /// log2 of the scale: the difference between log2 of stored units and log2 of weight units.
    #[must_use]
    pub fn log2_scale(&self) -> f64 {
        f64::from(self.scale).log2()
    }

    /// The values of the format.
    #[must_use]
    pub fn grid(&self) -> &ValueGrid {
        &self.grid
    }
}

/// `floor(log2 |w|)`; below -1000 for zero.
fn exponent(w: f64) -> i32 {
    ((w.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

impl Closed {
    fn of(grid: &ValueGrid, scale: f32) -> Option<Self> {
        let ValueGrid::Minifloat(grid) = grid else { return None };
        let (emin, bits) = (grid.emin(), grid.spec().significand_bits as i32);
        let power = |n: i32| f32::from_bits(((n + 127) as u32) << F32_BITS);
        CLOSED.contains(&emin).then(|| Self {
            scale,
            edge: power(emin),
            codes_below: power(bits - emin),
            fine_below: power(F32_BITS - emin),
            offset: power(emin - 1).to_bits(),
            fine: power(bits - F32_BITS),
        })
    }

    /// Fine steps from zero of the magnitude with this bit pattern.
    #[inline(always)]
    fn fine_steps(&self, magnitude: u32) -> u32 {
        // A number below 2^23, added to it, is rounded to an integer in the significand.
        const SHIFT: f32 = (1 << F32_BITS) as f32;
        let value = f32::from_bits(magnitude);
        let linear = (value * self.fine_below + SHIFT).to_bits() - SHIFT.to_bits();
        if value < self.edge { linear } else { magnitude.wrapping_sub(self.offset) }
    }
}

#[multiversion::multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn closed_distances(closed: &Closed, a: &[f32], b: &[f32], codes: &mut [f32]) -> u64 {
    const SIGN: u32 = 1 << 31;
    let mut crossings = 0u32;
    for ((&a, &b), codes) in a.iter().zip(b).zip(codes) {
        let (a, b) = (a * closed.scale, b * closed.scale);
        let (x, y) = (a.to_bits() & !SIGN, b.to_bits() & !SIGN);
        let (m, n) = (closed.fine_steps(x), closed.fine_steps(y));
        // Two magnitudes below 2^31: their sum fits.
        let steps = if (a.to_bits() ^ b.to_bits()) & SIGN == 0 { m.abs_diff(n) } else { m.wrapping_add(n) };
        let below = a.abs().max(b.abs()) < closed.edge;
        let distance = if below { (a - b).abs() * closed.codes_below } else { steps as f32 * closed.fine };
        // Zero times a non-finite value is NaN.
        *codes = distance + (a * 0.0 + b * 0.0);
        let edge = closed.edge.to_bits();
        crossings += u32::from(x.max(edge) >> F32_BITS != y.max(edge) >> F32_BITS);
    }
    crossings.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    const FORMATS: [(u32, u32, Domain); 8] = [
        (0, 7, Domain::FIN),
        (1, 6, Domain::FIN),
        (2, 5, Domain::FIN),
        (3, 4, Domain::FIN),
        (4, 3, Domain::FN),
        (5, 2, Domain::IEEE),
        (6, 1, Domain::FIN),
        (7, 0, Domain::FIN),
    ];

    fn grid(e: u32, m: u32, domain: Domain) -> ValueGrid {
        ValueGrid::new(&FormatSpec::Minifloat(minifloat(e, m, domain).unwrap())).unwrap()
    }

    /// The code coordinate from the format's values alone: the number of values between zero and x, plus the position
    /// of x in its gap.
    fn counted(values: &[f64], x: f64) -> f64 {
        let above = values.iter().position(|value| *value > x.abs()).unwrap();
        let (low, high) = (values[above - 1], values[above]);
        ((above - 1) as f64 + (x.abs() - low) / (high - low)).copysign(x)
    }

    /// Numbers not negative, ascending.
    fn values(grid: &ValueGrid) -> Vec<f64> {
        let codes = (0..grid.codes() as u16 / 2).map(|code| f64::from(grid.decode(code)));
        codes.filter(|value| value.is_finite()).collect()
    }

    /// Values over all binades of the format, of both signs, and steps from tiny to large.
    fn pairs(largest: f64) -> (Vec<f32>, Vec<f32>) {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let pair = |_| {
            let a = (random() - 0.5) * largest * (-8.0 * random()).exp2();
            let step = (random() - 0.5) * a.abs() * (-20.0 * random()).exp2() * 2.0;
            (a as f32, (a + step) as f32)
        };
        let (mut a, mut b): (Vec<f32>, Vec<f32>) = (0..5000).map(pair).unzip();
        a.extend([0.0, 0.0, 0.0, -0.0, 1e-30]);
        b.extend([0.0, -0.0, largest as f32 / 3.0, -1e-30, -1e-30]);
        (a, b)
    }

    #[test]
    fn codes_by_hand() {
        // E4M3: code 56 is 1, 64 is 2, 8 is 2^-6; below, steps of 2^-9.
        let distance = UlpDistance::new(grid(4, 3, Domain::FN), 1.0);
        let a = [1.0, 1.0, 1.0, -1.0, 0.0, 0.015625, 1.0, f32::NAN, 1.0];
        let b = [2.0, 1.0625, -1.0, -4.0, 0.001, 0.013671875, 1.0, 1.0, f32::INFINITY];
        let mut codes = [0.0; 9];
        let crossings = distance.distances(&a, &b, &mut codes);
        assert_eq!(codes[..4], [8.0, 0.5, 112.0, 16.0]);
        assert_eq!((codes[4], codes[5], codes[6]), (0.512, 1.0, 0.0));
        assert!(codes[7].is_nan() && codes[8].is_nan());
        // 1 to 2 and -1 to -4; all values below 2^-6 count as that binade; non-finite values are in another.
        assert_eq!(crossings, 4);
    }

    #[test]
    fn distances_against_counting_values() {
        for (e, m, domain) in FORMATS {
            let grid = grid(e, m, domain);
            let (values, scale) = (values(&grid), 0.37f32);
            let (a, b) = pairs(f64::from(grid.max_finite()) / f64::from(scale) * 0.9);
            let mut found = vec![0.0; a.len()];
            let distance = UlpDistance::new(grid, scale);
            assert!(distance.closed.is_some());
            distance.distances(&a, &b, &mut found);
            for ((&a, &b), &found) in a.iter().zip(&b).zip(&found) {
                let phi = |w: f32| counted(&values, f64::from(w * scale));
                let exact = (phi(a) - phi(b)).abs();
                let tolerance = exact * 2f64.powi(-23) + 2f64.powi(m as i32 - 23) + 1e-12;
                assert!((f64::from(found) - exact).abs() <= tolerance, "E{e}M{m} {a} {b}: {found}, {exact}");
            }
        }
    }

    /// The closed form and the element by element search agree, binades included; a table of the same values too.
    #[test]
    fn both_ways_agree() {
        for (e, m, domain) in FORMATS {
            let grid = grid(e, m, domain);
            let (a, b) = pairs(f64::from(grid.max_finite()) * 0.9);
            let distance = UlpDistance::new(grid.clone(), 1.0);
            let mut found = [vec![0.0; a.len()], vec![0.0; a.len()], vec![0.0; a.len()]];
            let crossings = distance.distances(&a, &b, &mut found[0]);
            assert_eq!(crossings, distance.searched_distances(&a, &b, &mut found[1]), "E{e}M{m}");
            // A linear grid has one binade, as all that is below 2^emin.
            assert_eq!(crossings == 0, e <= 1, "E{e}M{m}: {crossings}");
            let table = (0..256).map(|code| grid.decode(code)).collect();
            let table = UlpDistance::new(ValueGrid::new(&FormatSpec::Table(table)).unwrap(), 1.0);
            assert!(table.closed.is_none());
            table.distances(&a, &b, &mut found[2]);
            for i in 0..a.len() {
                let [closed, searched, table] = [found[0][i], found[1][i], found[2][i]];
                let tolerance = searched * 1e-6 + 2f32.powi(m as i32 - 23);
                assert!((closed - searched).abs() <= tolerance, "E{e}M{m} {} {}", a[i], b[i]);
                assert!((table - searched).abs() <= tolerance, "E{e}M{m} {} {}", a[i], b[i]);
            }
        }
    }
}
