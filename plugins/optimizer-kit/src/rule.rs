//! The update of one element.
//!
//! Weights and gradients are in the parameter's own units; geometries and charts speak of stored units,
//! `x = scale * w`, whose product must be finite.

use std::{f32::consts::LN_2, ops::Range};

use altgrad_plugin_api::Scales;

pub use crate::geometry::Geometry;
use crate::{Moments, exp::exp, geometry::sum_log2_spacing, whole::round};

/// One element's update, in two halves: the length of a step, and its result. A NaN in any input becomes a NaN in the
/// weight.
pub trait ElementRule {
    /// True if both halves are long chains of dependent operations: they then run in loops of their own.
    const LONG: bool = false;
    /// The step of a weight, in the rule's own unit; the moments change in place.
    fn step(&self, w: f32, g: f32, m: &mut f32, v: &mut f32) -> f32;
    /// The new weight; where it cannot move further, the momentum `m` changes in place.
    fn land(&self, w: f32, step: f32, m: &mut f32) -> f32;
    /// Longest step with a shorter computation of the same result; negative if there is none.
    #[inline(always)]
    fn near(&self) -> f32 {
        -1.0
    }
    /// Bit-identical to [`Self::land`], after a step of at most [`Self::near`] in either direction.
    #[inline(always)]
    fn land_near(&self, w: f32, step: f32, m: &mut f32) -> f32 {
        self.land(w, step, m)
    }
}

/// A way to go along a grid, counting codes.
pub trait Chart: Geometry {
    /// True if [`Self::moved`] is a long chain of dependent operations.
    const LONG: bool = false;
    /// Smallest and largest value.
    fn ends(&self) -> (f32, f32);
    /// The value `codes` codes above `x` (below, if negative), but never beyond the ends.
    ///
    /// Exactly `x` for 0 codes unless it lies beyond an end, NaN for NaN codes. `x` is finite.
    fn moved(&self, x: f32, codes: f32) -> f32;
    /// The largest number of codes for which [`Self::moved_near`] works; negative if it never does.
    #[inline(always)]
    fn near(&self) -> f32 {
        -1.0
    }
    /// Bit-identical to [`Self::moved`], over at most [`Self::near`] codes, in fewer operations.
    #[inline(always)]
    fn moved_near(&self, x: f32, codes: f32) -> f32 {
        self.moved(x, codes)
    }
}

/// A factor that depends on the weight.
pub trait Factor {
    /// The factor at weight `w`.
    fn at(&self, w: f32) -> f32;
}

/// `S(scale * w) * unit`: spacing in weight units if `unit` is `1 / scale`.
#[derive(Debug, Clone, Copy)]
pub struct Spacing<G> {
    /// The grid in stored units.
    pub geometry: G,
    /// stored = scale * value.
    pub scale: f32,
    /// The factor of the spacing.
    pub unit: f32,
}

impl<G: Geometry> Factor for Spacing<G> {
    #[inline(always)]
    fn at(&self, w: f32) -> f32 {
        self.geometry.spacing(self.scale * w) * self.unit
    }
}

/// Largest scale of a block with a value. Casts give larger ones to blocks of zeros, for E4M3 scales of 0, and at the
/// lower end of f32.
const LARGEST_SCALE: f32 = f32::from_bits((126 + 127) << 23);

/// True for the scale of a block that rounds to zero: its spacing is far below that of any value, and says nothing.
#[must_use]
pub(crate) fn is_of_zeros(scale: f32) -> bool {
    scale > LARGEST_SCALE
}

/// `amount * (S / S_bar)^p`, S_bar the parameter's geometric mean in weight units; exactly `amount` for p = 0.
#[derive(Debug, Clone, Copy)]
pub struct Power<G> {
    geometry: G,
    scale: f32,
    amount: f32,
    /// p: 12 bits, whose products with whole numbers of binades are exact, and the rest.
    p: [f32; 2],
    /// Mean of `log2 S` in stored units: a whole number and the rest, because their sum in f32 would lose bits.
    mean: [f32; 2],
}

/// The properties of a whole parameter that [`Power`] needs.
#[derive(Debug, Clone, Copy)]
pub struct MeanSpacing<G> {
    geometry: G,
    /// Mean of `log2 S`: in weight units, or in stored ones if there is only one scale.
    mean: f64,
    one_scale: bool,
}

impl<G: Geometry + Copy> MeanSpacing<G> {
    /// Of a parameter as it is now: one reading of it. Blocks that round to zero are left out.
    #[must_use]
    pub fn new(geometry: G, scales: &Scales<'_>, param: &[f32]) -> Self {
        let one_scale = scales.single().is_some();
        let mut elements = 0;
        let of_run = |(range, [scale, _]): (Range<usize>, [f32; 2])| {
            elements += range.len();
            let shift = if one_scale { 0.0 } else { range.len() as f64 * f64::from(scale).log2() };
            sum_log2_spacing(&geometry, scale, &param[range]) - shift
        };
        let runs = scales.runs(param.len()).filter(|(_, [scale, _])| !is_of_zeros(*scale));
        let sum: f64 = runs.map(of_run).sum();
        Self { geometry, mean: sum / elements.max(1) as f64, one_scale }
    }

    /// The factor for elements of this scale: `amount` in blocks that round to zero.
    #[must_use]
    pub fn power(&self, scale: f32, p: f64, amount: f64) -> Power<G> {
        let (scale, p) = if is_of_zeros(scale) { (1.0, 0.0) } else { (scale, p) };
        let mean = if self.one_scale { self.mean } else { self.mean + f64::from(scale).log2() };
        let whole = mean.floor();
        let mean = [whole as f32, (mean - whole) as f32];
        Power { geometry: self.geometry, scale, amount: amount as f32, p: in_two(p), mean }
    }
}

/// A number as one of 12 bits and the rest.
pub(crate) fn in_two(x: f64) -> [f32; 2] {
    let high = f32::from_bits((x as f32).to_bits() & 0xffff_f000);
    [high, (x - f64::from(high)) as f32]
}

/// Largest power of two that a factor has, either way: far beyond any useful value.
const MOST_BINADES: f32 = 120.0;

impl<G: Geometry> Factor for Power<G> {
    #[inline(always)]
    fn at(&self, w: f32) -> f32 {
        let ([whole, rest], [high, low]) = (self.mean, self.p);
        let binades = self.geometry.log2_spacing(self.scale * w) - whole;
        // p times many binades would lose bits in one number: so whole powers of two are separate from the rest.
        let power = high * binades;
        let (n, _) = round(power);
        let left = (power - n) + (low * binades - (high + low) * rest);
        let (_, n) = round(n.clamp(-MOST_BINADES, MOST_BINADES));
        self.amount * (exp(LN_2 * left) * f32::from_bits(((n + 127) as u32) << 23))
    }
}

/// AdamW: `w <- keep * w - step`.
#[derive(Debug, Clone, Copy)]
pub struct PlainStep {
    /// The factor of decay.
    pub keep: f32,
    /// Steps in weight units.
    pub moments: Moments,
}

impl ElementRule for PlainStep {
    #[inline(always)]
    fn step(&self, _: f32, g: f32, m: &mut f32, v: &mut f32) -> f32 {
        self.moments.step(g, m, v)
    }
    #[inline(always)]
    fn land(&self, w: f32, step: f32, _: &mut f32) -> f32 {
        self.keep * w - step
    }
}

/// `w <- keep * w - factor(w) * step`.
#[derive(Debug, Clone, Copy)]
pub struct ScaledStep<F> {
    /// The factor of decay.
    pub keep: f32,
    /// Steps in weight units over the factor's.
    pub moments: Moments,
    /// The factor of a step.
    pub factor: F,
}

impl<F: Factor> ElementRule for ScaledStep<F> {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, m: &mut f32, v: &mut f32) -> f32 {
        self.factor.at(w) * self.moments.step(g, m, v)
    }
    #[inline(always)]
    fn land(&self, w: f32, step: f32, _: &mut f32) -> f32 {
        self.keep * w - step
    }
}

/// AdamW on `factor(w) * g`.
#[derive(Debug, Clone, Copy)]
pub struct ScaledGradient<F> {
    /// The factor of decay.
    pub keep: f32,
    /// Steps in weight units.
    pub moments: Moments,
    /// The factor of a gradient.
    pub factor: F,
}

impl<F: Factor> ElementRule for ScaledGradient<F> {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, m: &mut f32, v: &mut f32) -> f32 {
        self.moments.step(self.factor.at(w) * g, m, v)
    }
    #[inline(always)]
    fn land(&self, w: f32, step: f32, _: &mut f32) -> f32 {
        self.keep * w - step
    }
}

/// Adam on the code coordinate `u` of the weight, whose gradient is `S(w) * g`.
///
/// Decay, in weight units, comes after the gradient and before the step: S is that of the weight where the gradient was
/// taken, and the step starts from the weight after decay. A coordinate that reaches an end of the grid stays there and
/// loses its momentum outward.
#[derive(Debug, Clone, Copy)]
pub struct OnChart<C> {
    /// The factor of decay.
    pub keep: f32,
    /// Steps in codes.
    pub moments: Moments,
    /// The coordinate.
    pub chart: C,
    /// stored = scale * value.
    pub scale: f32,
    /// `1 / scale`.
    pub inv_scale: f32,
}

impl<C: Chart> ElementRule for OnChart<C> {
    const LONG: bool = C::LONG;

    #[inline(always)]
    fn step(&self, w: f32, g: f32, m: &mut f32, v: &mut f32) -> f32 {
        let spacing = self.chart.spacing(self.scale * w) * self.inv_scale;
        -self.moments.step(spacing * g, m, v)
    }
    #[inline(always)]
    fn land(&self, w: f32, codes: f32, m: &mut f32) -> f32 {
        self.landed(w, codes, m, C::moved)
    }
    #[inline(always)]
    fn near(&self) -> f32 {
        self.chart.near()
    }
    #[inline(always)]
    fn land_near(&self, w: f32, codes: f32, m: &mut f32) -> f32 {
        self.landed(w, codes, m, C::moved_near)
    }
}

impl<C: Chart> OnChart<C> {
    #[inline(always)]
    fn landed(&self, w: f32, codes: f32, m: &mut f32, moved: impl Fn(&C, f32, f32) -> f32) -> f32 {
        let kept = self.keep * w;
        let from = self.scale * kept;
        let to = moved(&self.chart, from, codes);
        let (low, high) = self.chart.ends();
        let stuck = (to >= high && codes > 0.0) || (to <= low && codes < 0.0);
        *m = if stuck { 0.0 } else { *m };
        // The difference, so that no step is no change though `scale * inv_scale` need not be 1.
        kept + (to - from) * self.inv_scale
    }
}

/// First order: `x + codes * S(x)` instead of the way along the grid.
#[derive(Debug, Clone, Copy)]
pub struct Linear<C>(pub C);

impl<C: Chart> Geometry for Linear<C> {
    #[inline(always)]
    fn spacing(&self, x: f32) -> f32 {
        self.0.spacing(x)
    }
    #[inline(always)]
    fn log2_spacing(&self, x: f32) -> f32 {
        self.0.log2_spacing(x)
    }
}

impl<C: Chart> Chart for Linear<C> {
    #[inline(always)]
    fn ends(&self) -> (f32, f32) {
        self.0.ends()
    }
    #[inline(always)]
    fn moved(&self, x: f32, codes: f32) -> f32 {
        let (low, high) = self.ends();
        (x + codes * self.0.spacing(x)).clamp(low, high)
    }
}

/// Holds that short ways along a chart are the long ones, from the whole of it.
#[cfg(test)]
pub(crate) fn assert_short_ways(chart: &impl Chart, max: f32) {
    use crate::testing::numbers;

    let near = chart.near();
    let from = numbers(1, 1000).into_iter().map(|x| x.powi(9) * max).chain([0.0, -0.0, max, -max]);
    let codes = numbers(2, 1000).into_iter().map(|x| x.powi(5) * near).chain([near, -near, 0.0, -0.0]);
    let codes: Vec<f32> = codes.collect();
    for (x, &codes) in from.flat_map(|x| codes.iter().map(move |codes| (x, codes))) {
        let (short, long) = (chart.moved_near(x, codes), chart.moved(x, codes));
        assert_eq!(short.to_bits(), long.to_bits(), "{x:e} by {codes:e}: {short:e}, {long:e}");
    }
}
