//! The slow definition of a format: its values, and rounding by search among them in exact arithmetic.
//!
//! Shares nothing with any implementation. All values are f32, so f64 holds them, twice them and the decisive
//! bits of their sums exactly. Where the definition leaves a choice (a tie in a table whose neighbours' codes are both
//! even, say), every answer it allows is right.

use std::cmp::Ordering;

use altgrad_plugin_api::{Domain, FormatSpec, Minifloat, Rounding, overflows};

/// A finite value of the format.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f64,
    /// True if its code is even; `None` if it has codes of both kinds.
    even: Option<bool>,
}

/// The values of a format and the definition of rounding to them.
#[derive(Debug, Clone)]
pub struct Oracle {
    by_code: Vec<f32>,
    /// Ascending, each value once.
    points: Vec<Point>,
    /// Thresholds between each point and the next when rounding to nearest; empty: the midpoints.
    thresholds: Vec<f64>,
    sign_magnitude: bool,
    /// True if there are codes of both zeros.
    signed_zeros: bool,
}

/// The results rounding may have: two neighbours where the definition leaves a choice, else twice the same.
pub(crate) type Allowed = [f32; 2];

impl Oracle {
    /// The definition of the format described by `spec`.
    ///
    /// # Errors
    /// The description is of no possible format.
    pub fn new(spec: &FormatSpec) -> Result<Self, String> {
        let (by_code, sign_magnitude) = match spec {
            FormatSpec::Minifloat(spec) => (minifloat_values(*spec)?, true),
            FormatSpec::Table(values) => (values.to_vec(), false),
        };
        if !by_code.len().is_power_of_two() || !(2..=1 << 16).contains(&by_code.len()) {
            return Err(format!(
                "the description has {} codes: it must have 2 to 65536, a power of two",
                by_code.len()
            ));
        }
        let points = points(&by_code);
        if points.len() < 2 {
            return Err("the description has fewer than two finite values".into());
        }
        if points.last().is_some_and(|largest| largest.value <= 0.0) {
            return Err("the description has no finite value above 0".into());
        }
        let has = |zero: f32| by_code.iter().any(|value| value.to_bits() == zero.to_bits());
        let signed_zeros = has(0.0) && has(-0.0);
        Ok(Self { by_code, points, thresholds: Vec::new(), sign_magnitude, signed_zeros })
    }

    /// The same, with the thresholds of rounding to nearest that the format declares.
    ///
    /// # Errors
    /// Not one threshold for each gap between values, or one outside its gap.
    pub fn turning_at(self, thresholds: &[f32]) -> Result<Self, String> {
        let gaps = self.points.len() - 1;
        if !thresholds.is_empty() && thresholds.len() != gaps {
            return Err(format!(
                "the format declares {} thresholds for {gaps} gaps between values",
                thresholds.len()
            ));
        }
        let thresholds: Vec<f64> = thresholds.iter().map(|&threshold| threshold.into()).collect();
        let mut gaps = thresholds.iter().zip(self.points.windows(2));
        if let Some((threshold, gap)) = gaps.find(|(at, gap)| !(gap[0].value..=gap[1].value).contains(at)) {
            let (low, high) = (gap[0].value, gap[1].value);
            return Err(format!(
                "the format declares the threshold {threshold:e} between {low:e} and {high:e}"
            ));
        }
        Ok(Self { thresholds, ..self })
    }

    /// True if thresholds differ from midpoints.
    pub(crate) fn has_thresholds(&self) -> bool {
        !self.thresholds.is_empty()
    }

    /// The declared thresholds.
    pub(crate) fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// The value of every code.
    pub(crate) fn by_code(&self) -> &[f32] {
        &self.by_code
    }

    /// The finite values, ascending, each once.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.value)
    }

    /// True for a sign-magnitude format, with zeros of both signs.
    pub(crate) fn sign_magnitude(&self) -> bool {
        self.sign_magnitude
    }

    /// True if the negative of every value is a value.
    pub(crate) fn symmetric(&self) -> bool {
        self.values().zip(self.points.iter().rev()).all(|(low, high)| low == -high.value)
    }

    /// The smallest and the largest finite value.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.points[0].value, self.points[self.points.len() - 1].value)
    }

    /// The smallest positive value.
    pub(crate) fn min_positive(&self) -> f64 {
        self.values().find(|&value| value > 0.0).unwrap_or(self.range().1)
    }

    /// True if a scaled value is beyond the last value on its side.
    pub(crate) fn saturates(&self, scaled: f32) -> bool {
        let (min, max) = self.range();
        f64::from(scaled) > max || f64::from(scaled) < min
    }

    /// True if a scaled value counts as overflow.
    pub(crate) fn overflows(&self, scaled: f32) -> bool {
        let (min, max) = self.range();
        overflows(scaled, min as f32, max as f32)
    }

    /// The neighbours of `x`: equal if it is a value or beyond the last.
    pub(crate) fn cell(&self, x: f64) -> (f64, f64) {
        let [a, b] = self.neighbours(x).map(|index| self.points[index]);
        (a.value, b.value)
    }

    /// Indices of the neighbours.
    fn neighbours(&self, x: f64) -> [usize; 2] {
        let above = self.points.partition_point(|point| point.value <= x);
        let Some(below) = above.checked_sub(1) else { return [0, 0] };
        let is_between = above < self.points.len() && self.points[below].value != x;
        if is_between { [below, above] } else { [below, below] }
    }

    /// On which side of the place where rounding to nearest turns, between two neighbours, the number `x` is.
    fn side(&self, x: f64, [a, b]: [usize; 2]) -> Ordering {
        match self.thresholds.get(a) {
            Some(threshold) if a != b => x.partial_cmp(threshold).unwrap_or(Ordering::Equal),
            _ => side(x, self.points[a].value, self.points[b].value),
        }
    }

    /// The allowed results of rounding `x`, already scaled and not NaN, in one of the modes of [`Rounding::ALL`].
    pub(crate) fn round(&self, x: f32, rounding: Rounding) -> Allowed {
        let wide = f64::from(x);
        let neighbours = self.neighbours(wide);
        let [a, b] = neighbours.map(|index| self.points[index]);
        let both = [a.value, b.value];
        let toward = |up: bool| if up { [b.value; 2] } else { [a.value; 2] };
        let chosen = match (rounding, self.side(wide, neighbours)) {
            (Rounding::STOCHASTIC, _) => both,
            (Rounding::TOWARD_ZERO, _) => away(a, b).map_or(both, |up| toward(!up)),
            (_, Ordering::Less) => toward(false),
            (_, Ordering::Greater) => toward(true),
            (Rounding::NEAREST_AWAY, Ordering::Equal) => away(a, b).map_or(both, toward),
            (_, Ordering::Equal) => match (a.even, b.even) {
                (Some(true), Some(false)) => toward(false),
                (Some(false), Some(true)) => toward(true),
                _ => both,
            },
        };
        // A zero has the sign of the rounded value.
        chosen.map(|value| if value == 0.0 { 0f32.copysign(x) } else { value as f32 })
    }

    /// True if a rounded value is bit-identical to an allowed one: a zero has a sign in every format.
    pub(crate) fn allows(allowed: Allowed, got: f32) -> bool {
        allowed.iter().any(|&expected| expected.to_bits() == got.to_bits())
    }

    /// True if the value of a code is one of those allowed; where the codes have no zeros of both signs, a zero needs
    /// no sign.
    pub(crate) fn allows_code(&self, allowed: Allowed, got: f32) -> bool {
        let loose = got == 0.0 && allowed.contains(&0.0) && !self.signed_zeros;
        loose || Self::allows(allowed, got)
    }
}

/// On which side of the middle of `a <= b` the number `x` between them is; exact.
fn side(x: f64, a: f64, b: f64) -> Ordering {
    // a + b = sum + rest exactly (Knuth's two-sum), with |rest| at most half a step of sum: twice x, being an f64,
    // compares with a + b as it does with sum, and if it is equal to that, the rest decides.
    let sum = a + b;
    let a_part = sum - b;
    let rest = (a - a_part) + (b - (sum - a_part));
    let compared = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    compared(2.0 * x, sum).then(compared(0.0, rest))
}

/// True if the upper neighbour is the one away from zero; `None` if zero lies strictly between them.
fn away(a: Point, b: Point) -> Option<bool> {
    if a.value >= 0.0 {
        Some(true)
    } else if b.value <= 0.0 {
        Some(false)
    } else {
        None
    }
}

fn points(by_code: &[f32]) -> Vec<Point> {
    let finite = by_code.iter().enumerate().filter(|(_, value)| value.is_finite());
    let mut points: Vec<Point> =
        finite.map(|(code, &value)| Point { value: f64::from(value), even: Some(code % 2 == 0) }).collect();
    points.sort_by(|a, b| a.value.total_cmp(&b.value));
    points.dedup_by(|next, kept| {
        let same = next.value == kept.value;
        if same && kept.even != next.even {
            kept.even = None;
        }
        same
    });
    points
}

/// The value of every code of a minifloat: docs/numerics.md, sections 1.1 and 1.2, written out.
fn minifloat_values(spec: Minifloat) -> Result<Vec<f32>, String> {
    let Minifloat { exponent_bits: e, significand_bits: m, bias, domain } = spec;
    if e > 8 || m > 10 || !(1..=15).contains(&(e + m)) || bias.unsigned_abs() > 1000 {
        return Err(format!(
            "there is no minifloat with {e} exponent and {m} significand bits and bias {bias}"
        ));
    }
    let domain_name = domain.name().ok_or_else(|| format!("its domain {} is unknown", domain.0))?;
    if e == 0 && domain != Domain::FIN {
        return Err(format!("a format without exponent bits is `fin`, not `{domain_name}`"));
    }
    let magnitudes = 1u32 << (e + m);
    let positive: Vec<f64> = (0..magnitudes).map(|code| minifloat_value(spec, code)).collect();
    if let Some(value) =
        positive.iter().find(|value| value.is_finite() && f64::from(**value as f32) != **value)
    {
        return Err(format!("its value {value:e} is not an f32"));
    }
    let values = positive.iter().map(|&value| value as f32);
    Ok(values.clone().chain(values.map(|value| -value)).collect())
}

fn minifloat_value(spec: Minifloat, code: u32) -> f64 {
    let Minifloat { exponent_bits: e, significand_bits: m, bias, domain } = spec;
    let (field, stored) = (code >> m, code & ((1 << m) - 1));
    let top = field == (1 << e) - 1;
    match domain {
        Domain::IEEE if top && stored == 0 => return f64::INFINITY,
        Domain::IEEE if top => return f64::NAN,
        Domain::FN if code == (1 << (e + m)) - 1 => return f64::NAN,
        _ => {}
    }
    let (significand, exponent) =
        if field == 0 { (stored, 1 - bias) } else { (stored + (1 << m), field as i32 - bias) };
    f64::from(significand) * 2f64.powi(exponent - m as i32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn oracle(exponent_bits: u32, significand_bits: u32, bias: i32, domain: Domain) -> Oracle {
        Oracle::new(&FormatSpec::Minifloat(Minifloat { exponent_bits, significand_bits, bias, domain }))
            .unwrap()
    }

    /// The table of docs/numerics.md, section 1.3: largest value, smallest positive one.
    #[test]
    fn ranges_of_the_family() {
        let rows = [
            (0, 7, 0, Domain::FIN, 1.984_375, -6),
            (1, 6, 0, Domain::FIN, 3.968_75, -5),
            (1, 6, 0, Domain::IEEE, 1.968_75, -5),
            (2, 5, 1, Domain::FIN, 7.875, -5),
            (3, 4, 3, Domain::FIN, 31.0, -6),
            (4, 3, 7, Domain::FN, 448.0, -9),
            (4, 3, 7, Domain::IEEE, 240.0, -9),
            (4, 3, 7, Domain::FIN, 480.0, -9),
            (5, 2, 15, Domain::IEEE, 57344.0, -16),
            (6, 1, 31, Domain::FIN, 1.5 * 2f64.powi(32), -31),
            (7, 0, 63, Domain::FIN, 2f64.powi(64), -62),
            (7, 0, 63, Domain::IEEE, 2f64.powi(63), -62),
        ];
        for (e, m, bias, domain, max, smallest) in rows {
            let oracle = oracle(e, m, bias, domain);
            assert_eq!(oracle.range(), (-max, max), "E{e}M{m} {domain:?}");
            assert_eq!(oracle.min_positive(), 2f64.powi(smallest), "E{e}M{m} {domain:?}");
            assert!(oracle.symmetric());
        }
    }

    #[test]
    fn a_table_without_a_positive_value_is_refused() {
        let refused = |values: [f32; 4]| Oracle::new(&FormatSpec::Table(values.to_vec().into())).err();
        let why = Some("the description has no finite value above 0".to_owned());
        assert_eq!(refused([0.0, -1.0, f32::INFINITY, f32::NAN]), why);
        assert_eq!(refused([0.0, -1.0, 0.5, f32::NAN]), None);
    }

    #[test]
    fn ties_and_saturation() {
        let e7m0 = oracle(7, 0, 63, Domain::FIN);
        for (x, even, away, zero) in
            [(1.5, 2.0, 2.0, 1.0), (3.0, 2.0, 4.0, 2.0), (6.0, 8.0, 8.0, 4.0), (-3.0, -2.0, -4.0, -2.0)]
        {
            assert_eq!(e7m0.round(x, Rounding::NEAREST_EVEN), [even; 2], "{x}");
            assert_eq!(e7m0.round(x, Rounding::NEAREST_AWAY), [away; 2], "{x}");
            assert_eq!(e7m0.round(x, Rounding::TOWARD_ZERO), [zero; 2], "{x}");
        }
        assert_eq!(e7m0.round(f32::NEG_INFINITY, Rounding::STOCHASTIC), [-(2f32.powi(64)); 2]);
        assert_eq!(e7m0.round(-1e-30, Rounding::NEAREST_EVEN)[0].to_bits(), (-0f32).to_bits());
        assert_eq!(e7m0.round(1.25, Rounding::STOCHASTIC), [1.0, 2.0]);
    }

    #[test]
    fn a_middle_that_no_f64_holds_is_still_told_apart() {
        assert_eq!(side(0.5, 1e-30, 1.0), Ordering::Less);
        assert_eq!(side(0.5, -1e-30, 1.0), Ordering::Greater);
        assert_eq!(side(0.5, 0.0, 1.0), Ordering::Equal);
    }
}
