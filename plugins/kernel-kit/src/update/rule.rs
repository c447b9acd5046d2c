//! The update of one element: `optimizer-kit`'s rules, on a device.

use altgrad_plugin_api::kernel::rules::UpdateRule;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::{
    geometry::{self, Description, Log2},
    is_nan, nan,
};

/// The factor of decay, and the moments' factors: f32 bits.
#[derive(CubeType, Clone, Copy)]
pub struct Moments {
    pub keep: u32,
    pub mix1: u32,
    pub beta2: u32,
    pub mix2: u32,
    pub correction2_sqrt: u32,
    pub eps: u32,
    pub step_size: u32,
}

/// An element's scale: stored = scale * value.
#[derive(CubeType, Clone, Copy)]
pub struct Scale {
    pub scale: f32,
    pub inverse: f32,
}

/// The mean of a parameter's exponent fields, were all its spacings at one scale: a whole number and the rest.
#[derive(CubeType, Clone, Copy)]
pub struct Mean {
    pub whole: i32,
    pub rest: f32,
    pub scale: f32,
}

/// An element after its update.
#[derive(CubeType, Clone, Copy)]
pub struct Element {
    pub w: f32,
    pub m: f32,
    pub v: f32,
}

/// Moments that have taken in a gradient, and the step they make.
#[derive(CubeType, Clone, Copy)]
struct Stepped {
    m: f32,
    v: f32,
    step: f32,
}

#[cube]
impl Moments {
    /// `step` is `lr * m_hat / (sqrt(v_hat) + eps)`, to be subtracted.
    fn step(&self, g: f32, m: f32, v: f32) -> Stepped {
        let new_m = m + f32::reinterpret(self.mix1) * (g - m);
        let new_v = f32::reinterpret(self.beta2) * v + f32::reinterpret(self.mix2) * g * g;
        let denominator =
            f32::sqrt(new_v) / f32::reinterpret(self.correction2_sqrt) + f32::reinterpret(self.eps);
        Stepped { m: new_m, v: new_v, step: f32::reinterpret(self.step_size) * new_m / denominator }
    }
}

/// One element's update by AdamW. A NaN in any input becomes a NaN in the weight.
#[cube]
pub fn plain(w: f32, g: f32, m: f32, v: f32, moments: &Moments) -> Element {
    let to = moments.step(g, m, v);
    kept_nan(w, g, m, v, Element { w: f32::reinterpret(moments.keep) * w - to.step, m: to.m, v: to.v })
}

/// The same by another rule.
#[cube]
pub fn apply(
    w: f32,
    g: f32,
    m: f32,
    v: f32,
    scale: Scale,
    moments: &Moments,
    grid: &Description,
    mean: &Mean,
    #[comptime] rule: UpdateRule,
) -> Element {
    let kept = f32::reinterpret(moments.keep) * w;
    let after = match comptime!(rule) {
        UpdateRule::Plain => plain(w, g, m, v, moments),
        UpdateRule::Steps => {
            let factor = geometry::spacing(scale.scale * w, grid) * (grid.amount() * scale.inverse);
            let to = moments.step(g, m, v);
            Element { w: kept - factor * to.step, m: to.m, v: to.v }
        }
        UpdateRule::Gradients => {
            let factor = geometry::spacing(scale.scale * w, grid) * (grid.amount() * scale.inverse);
            let to = moments.step(factor * g, m, v);
            Element { w: kept - to.step, m: to.m, v: to.v }
        }
        UpdateRule::Power => {
            let field = i32::cast_from(geometry::field(scale.scale * w, grid.r2));
            let factor = power(field, geometry::log2_ratio(scale.scale, mean.scale), mean, grid);
            let to = moments.step(g, m, v);
            Element { w: kept - factor * to.step, m: to.m, v: to.v }
        }
        UpdateRule::Exp | UpdateRule::Linear | UpdateRule::SmoothExp | UpdateRule::SmoothLinear => {
            on_chart(w, kept, g, m, v, scale, moments, grid, rule)
        }
    };
    kept_nan(w, g, m, v, after)
}

/// The updated element, or a NaN in the weight if an input was NaN.
#[cube]
fn kept_nan(w: f32, g: f32, m: f32, v: f32, after: Element) -> Element {
    let broken = is_nan(w) || is_nan(g) || is_nan(m) || is_nan(v);
    Element { w: select(broken, nan(w), after.w), m: after.m, v: after.v }
}

/// `amount * (S / mean S)^p`. Words 4 and 5 are p: 12 bits and the rest. `relative` is the logarithm of the element's
/// scale over the mean's.
#[cube]
fn power(field: i32, relative: Log2, mean: &Mean, grid: &Description) -> f32 {
    let (high, low) = (f32::reinterpret(grid.r4), f32::reinterpret(grid.r5));
    let binades = f32::cast_from(field - relative.whole - mean.whole);
    // Exact, so that it is the same with and without contraction.
    let power = high * binades;
    let n = f32::floor(power + 0.5f32);
    let left = (power - n) + (low * binades - (high + low) * (mean.rest + relative.rest));
    let whole = geometry::exp2i(i32::cast_from(clamp(n, -120.0f32, 120.0f32)));
    grid.amount() * (geometry::exp(comptime!(std::f32::consts::LN_2) * left) * whole)
}

/// Adam on the code coordinate; `kept` is the weight after decay, where the step begins.
#[cube]
fn on_chart(
    w: f32,
    kept: f32,
    g: f32,
    m: f32,
    v: f32,
    scale: Scale,
    moments: &Moments,
    grid: &Description,
    #[comptime] rule: UpdateRule,
) -> Element {
    let from = scale.scale * kept;
    let to = moments.step(spacing(scale.scale * w, grid, rule) * scale.inverse * g, m, v);
    let end = if comptime!(smooth(rule)) { geometry::smooth_end(grid) } else { geometry::end(grid) };
    let codes = -to.step;
    let target = match comptime!(rule) {
        UpdateRule::Exp => geometry::moved(from, codes, grid),
        UpdateRule::SmoothExp => geometry::smooth_moved(from, codes, grid),
        _ => select(is_nan(codes), nan(codes), clamp(from + codes * spacing(from, grid, rule), -end, end)),
    };
    let stuck = (target >= end && codes > 0.0f32) || (target <= -end && codes < 0.0f32);
    // The difference, so that no step is no change though `scale * inverse` need not be 1.
    let w = kept + (target - from) * scale.inverse;
    Element { w, m: select(stuck && !is_nan(codes), 0.0f32, to.m), v: to.v }
}

/// True if a rule moves along the asinh chart.
const fn smooth(rule: UpdateRule) -> bool {
    matches!(rule, UpdateRule::SmoothExp | UpdateRule::SmoothLinear)
}

/// Spacing on a rule's chart, in stored units.
#[cube]
fn spacing(x: f32, grid: &Description, #[comptime] rule: UpdateRule) -> f32 {
    if comptime!(smooth(rule)) { geometry::smooth_spacing(x, grid) } else { geometry::spacing(x, grid) }
}
