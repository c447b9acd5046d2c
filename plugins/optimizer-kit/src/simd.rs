//! The loops of this crate, compiled for each width of SIMD registers; the CPU decides when they are called.
//!
//! Plugins are built for any x86-64 (or another CPU) and need not be built again. Results are bit-identical on every CPU: the
//! loops fix the order of additions, and nothing is fused.

use multiversion::multiversion;

use crate::{
    Buffers,
    one_state::OneState,
    rule::{Geometry, Rule},
};

/// One pass over a parameter and its states.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn update<R: Rule>(rule: &R, buffers: Buffers<'_>) {
    if R::LONG { in_halves(rule, buffers) } else { at_once(rule, buffers) }
}

/// One pass over a parameter and its one state.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn update_one<R: OneState>(rule: &R, param: &mut [f32], grad: &[f32], state: &mut [f32]) {
    for ((w, &g), m) in param.iter_mut().zip(grad).zip(state) {
        *w = rule.step(*w, g, m);
    }
}

#[inline(always)]
fn at_once<R: Rule>(rule: &R, buffers: Buffers<'_>) {
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
fn in_halves<R: Rule>(rule: &R, buffers: Buffers<'_>) {
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

/// Partial sums: element i goes to sum `i % LANES`, and they are added in order.
const LANES: usize = 16;
/// Elements after which partial sums are added up: whole numbers up to 2^16 stay exact in f32.
const BLOCK: usize = LANES << 8;

/// Sum of `log2 S(scale * w)` over a parameter.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn sum_log2_spacing<G: Geometry>(geometry: &G, scale: f32, param: &[f32]) -> f64 {
    let mut sum = 0.0;
    for block in param.chunks(BLOCK) {
        let (groups, rest) = block.as_chunks::<LANES>();
        let mut lanes = [0f32; LANES];
        for group in groups {
            let logs = group.map(|w| geometry.log2_spacing(scale * w));
            for (lane, log) in lanes.iter_mut().zip(logs) {
                *lane += log;
            }
        }
        for (lane, w) in lanes.iter_mut().zip(rest) {
            *lane += geometry.log2_spacing(scale * w);
        }
        sum += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    sum
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
    fn ten<R: Rule>(rule: &R, update: impl Fn(&R, Buffers<'_>)) -> [Vec<f32>; 3] {
        let (mut param, mut m, mut v) = (numbers(1, COUNT), vec![0.0; COUNT], vec![0.0; COUNT]);
        for seed in 0..10 {
            let (grad, exp_avg, exp_avg_sq) = (&numbers(seed << 30, COUNT), &mut m, &mut v);
            update(rule, Buffers { param: &mut param, grad, exp_avg, exp_avg_sq });
        }
        [param, m, v]
    }

    /// An element at a time, which no register is wider for.
    fn one_by_one<R: Rule>(rule: &R, buffers: Buffers<'_>) {
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

    #[test]
    fn the_mean_spacing_is_that_of_exponents() {
        let grid = MinifloatGrid::new(minifloat(4, 3, Domain::FN).unwrap()).unwrap();
        let param = numbers(9, 100_001);
        let expected: f64 = param.iter().map(|&w| grid.spacing(f64::from(w * 7.3)).log2()).sum();
        assert_eq!(sum_log2_spacing(&Codes::new(&grid).unwrap(), 7.3, &param), expected);
    }
}
