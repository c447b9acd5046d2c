//! A parameter, its gradient and its states, checked to fit together; [`Buffers`] are those of Adam, and the loop over
//! them.
//!
//! The loop is compiled for each width of SIMD registers; the CPU decides when it is called. Plugins are built for any
//! x86-64 (or another CPU) and need not be built again. Results are bit-identical on every CPU: nothing is fused.

use altgrad_plugin_api::{PluginError, Scales, Step};
use multiversion::multiversion;

use crate::rule::ElementRule;

/// A parameter, its gradient and its `N` states, `[n]` each.
pub type CheckedBuffers<'a, const N: usize> = (&'a mut [f32], &'a [f32], [&'a mut [f32]; N]);

/// The buffers of a step.
///
/// # Errors
/// Another number of states, lengths that differ, or an update 0.
pub fn checked<'a, const N: usize>(step: Step<'a>) -> Result<CheckedBuffers<'a, N>, PluginError> {
    let Step { info, param, grad, states, scalars, .. } = step;
    if scalars.update == 0 {
        return Err(PluginError::config("updates count from 1, this one is 0"));
    }
    let lens: Vec<usize> = [grad.len()].into_iter().chain(states.iter().map(|state| state.len())).collect();
    let count = states.len();
    let states: &'a mut [&'a mut [f32]; N] = match states.try_into() {
        Ok(states) => states,
        Err(_) => {
            return Err(PluginError::shape(format!("`{}` needs {N} states, has {count}", info.name)));
        }
    };
    if lens.iter().any(|&len| len != param.len()) {
        let message = format!("`{}` has {} elements, gradient and states {lens:?}", info.name, param.len());
        return Err(PluginError::shape(message));
    }
    Ok((param, grad, states.each_mut().map(|state| &mut **state)))
}

/// The buffers of one pass. All `[n]` f32.
#[derive(Debug)]
pub struct Buffers<'a> {
    pub(crate) param: &'a mut [f32],
    pub(crate) grad: &'a [f32],
    pub(crate) exp_avg: &'a mut [f32],
    pub(crate) exp_avg_sq: &'a mut [f32],
}

impl<'a> Buffers<'a> {
    /// The buffers of a step.
    ///
    /// # Errors
    /// Not two states, lengths that differ, or an update 0.
    pub fn of(step: Step<'a>) -> Result<Self, PluginError> {
        let (param, grad, [exp_avg, exp_avg_sq]) = checked(step)?;
        Ok(Self { param, grad, exp_avg, exp_avg_sq })
    }

    /// The parameter as it is before the update.
    #[must_use]
    pub fn param(&self) -> &[f32] {
        self.param
    }

    /// Updates every element.
    pub fn update<R: ElementRule>(self, rule: &R) {
        update(rule, self);
    }

    /// Updates every element by the rule of its block's scale and inverse.
    pub fn update_blocks<R: ElementRule>(self, scales: &Scales<'_>, rule: impl Fn([f32; 2]) -> R) {
        let Self { param, grad, exp_avg, exp_avg_sq } = self;
        for (range, pair) in scales.runs(param.len()) {
            let block = Buffers {
                param: &mut param[range.clone()],
                grad: &grad[range.clone()],
                exp_avg: &mut exp_avg[range.clone()],
                exp_avg_sq: &mut exp_avg_sq[range],
            };
            block.update(&rule(pair));
        }
    }
}

/// One pass over a parameter and its states.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
fn update<R: ElementRule>(rule: &R, buffers: Buffers<'_>) {
    if R::LONG { in_halves(rule, buffers) } else { at_once(rule, buffers) }
}

#[inline(always)]
fn at_once<R: ElementRule>(rule: &R, buffers: Buffers<'_>) {
    let Buffers { param, grad, exp_avg, exp_avg_sq } = buffers;
    for (((w, &g), m), v) in param.iter_mut().zip(grad).zip(exp_avg).zip(exp_avg_sq) {
        let step = rule.step(*w, g, m, v);
        *w = rule.land(*w, step, m);
    }
}

/// Elements that stay in the first-level cache between the two halves of their update.
const PIECE: usize = 512;

/// A CPU has a fixed number of operations in flight: with short chains these belong to more elements.
#[inline(always)]
fn in_halves<R: ElementRule>(rule: &R, buffers: Buffers<'_>) {
    let (params, param) = buffers.param.as_chunks_mut::<PIECE>();
    let (grads, grad) = buffers.grad.as_chunks::<PIECE>();
    let (means, exp_avg) = buffers.exp_avg.as_chunks_mut::<PIECE>();
    let (squares, exp_avg_sq) = buffers.exp_avg_sq.as_chunks_mut::<PIECE>();
    for (((param, grad), m), v) in params.iter_mut().zip(grads).zip(means).zip(squares) {
        let (mut steps, mut longest) = ([0f32; PIECE], 0);
        for i in 0..PIECE {
            steps[i] = rule.step(param[i], grad[i], &mut m[i], &mut v[i]);
            // As bits, whose order is that of magnitudes, NaN last.
            longest = longest.max(steps[i].abs().to_bits());
        }
        if f32::from_bits(longest) <= rule.near() {
            for i in 0..PIECE {
                param[i] = rule.land_near(param[i], steps[i], &mut m[i]);
            }
        } else {
            for i in 0..PIECE {
                param[i] = rule.land(param[i], steps[i], &mut m[i]);
            }
        }
    }
    at_once(rule, Buffers { param, grad, exp_avg, exp_avg_sq });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        Config, Domain, Scales,
        grid::{MinifloatGrid, minifloat},
    };

    use super::*;
    use crate::{
        Adam,
        codes::Codes,
        rule::{Linear, MeanSpacing, OnChart, ScaledStep},
        smooth::Smooth,
        testing::numbers,
    };

    const COUNT: usize = 4099;

    /// Ten updates, by a loop of that width.
    fn ten<R: ElementRule>(rule: &R, update: impl Fn(&R, Buffers<'_>)) -> [Vec<f32>; 3] {
        let (mut param, mut m, mut v) = (numbers(1, COUNT), vec![0.0; COUNT], vec![0.0; COUNT]);
        for seed in 0..10 {
            let (grad, exp_avg, exp_avg_sq) = (&numbers(seed << 30, COUNT), &mut m, &mut v);
            update(rule, Buffers { param: &mut param, grad, exp_avg, exp_avg_sq });
        }
        [param, m, v]
    }

    /// An element at a time, which no register is wider for.
    fn one_by_one<R: ElementRule>(rule: &R, buffers: Buffers<'_>) {
        for i in 0..COUNT {
            let at = std::hint::black_box(i);
            let (w, g) = (buffers.param[at], buffers.grad[at]);
            let (m, v) = (&mut buffers.exp_avg[at], &mut buffers.exp_avg_sq[at]);
            let step = rule.step(w, g, m, v);
            buffers.param[at] = rule.land(w, step, m);
        }
    }

    #[test]
    fn all_widths_give_the_same_bits() {
        let options = Adam::options(1e-16);
        let adam = Adam::new(&Config::resolve(&options, []).unwrap()).unwrap();
        for (e, m) in [(1, 6), (4, 3), (7, 0)] {
            let grid = MinifloatGrid::new(minifloat(e, m, Domain::FIN).unwrap()).unwrap();
            let (codes, smooth) = (Codes::new(&grid).unwrap(), Smooth::new(&grid).unwrap());
            let (keep, moments, scale) = (0.99, adam.moments(0.6, 3), grid.max_finite() * 0.9);
            let inv_scale = 1.0 / scale;
            let mean = MeanSpacing::new(codes, &Scales::whole(&[scale, inv_scale]), &numbers(1, COUNT));
            let factor = mean.power(scale, 0.7, 0.01);
            let scaled = ScaledStep { keep, moments, factor };
            assert!(ten(&scaled, update) == ten(&scaled, one_by_one));
            let exact = OnChart { keep, moments, chart: codes, scale, inv_scale };
            assert!(ten(&exact, update) == ten(&exact, one_by_one));
            let linear = OnChart { keep, moments, chart: Linear(codes), scale, inv_scale };
            assert!(ten(&linear, update) == ten(&linear, one_by_one));
            let asinh = OnChart { keep, moments, chart: smooth, scale, inv_scale };
            assert!(ten(&asinh, update) == ten(&asinh, one_by_one));
        }
    }
}
