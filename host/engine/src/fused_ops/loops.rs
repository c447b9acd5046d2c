//! The inner loops of the operations, compiled for each width of SIMD registers; the CPU decides when they are called.
//!
//! Results are bit-identical on every CPU: the loops fix the order of sums, and no multiplication is fused with an
//! addition.

use multiversion::multiversion;

use super::math;

mod gated;
mod rms;
mod rotary;
mod z_loss;

pub(super) use gated::{largest_magnitude, swiglu, swiglu_backward};
pub(super) use rms::{rms_norm, rms_norm_backward};
pub(super) use rotary::rotate;
pub(super) use z_loss::z_loss_and_gradient;

/// Partial sums: element i goes to sum `i % LANES`.
const LANES: usize = 16;

/// The sum of `term` over the elements and their indices.
#[inline(always)]
fn sum(len: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    for (lane, sum) in lanes.iter_mut().enumerate().take(len - whole) {
        *sum += term(whole + lane);
    }
    add_up(lanes)
}

/// The sum of partial sums, in pairs.
#[inline(always)]
fn add_up(mut lanes: [f32; LANES]) -> f32 {
    let mut len = LANES / 2;
    while len > 0 {
        for lane in 0..len {
            lanes[lane] += lanes[lane + len];
        }
        len /= 2;
    }
    lanes[0]
}

/// The largest element, -inf if there is none; NaN does not count.
#[inline(always)]
fn largest(x: &[f32]) -> f32 {
    let (groups, rest) = x.as_chunks::<LANES>();
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for group in groups {
        for (lane, &x) in lanes.iter_mut().zip(group) {
            *lane = larger(*lane, x);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

/// `y = gelu(x)`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn gelu(x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = math::gelu(x);
    }
}

/// `grad` times the derivative of GELU at `x`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn gelu_backward(x: &[f32], grad: &mut [f32]) {
    for (grad, &x) in grad.iter_mut().zip(x) {
        *grad *= math::gelu_derivative(x);
    }
}

/// LayerNorm of rows as wide as `weight`; `stats` are each row's mean and inverse deviation.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn norm(
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    y: &mut [f32],
    stats: &mut [[f32; 2]],
) {
    let width = weight.len();
    for ((x, y), stats) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(stats) {
        let mean = sum(width, |i| x[i]) / width as f32;
        let variance = sum(width, |i| (x[i] - mean) * (x[i] - mean)) / width as f32;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = (x - mean) * inverse * w;
        }
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
        *stats = [mean, inverse];
    }
}

/// Turns the gradient of LayerNorm's result into that of `x`, and adds those of weight and bias to `sums`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn norm_backward(
    x: &[f32],
    weight: &[f32],
    stats: &[[f32; 2]],
    grad: &mut [f32],
    [weight_sums, bias_sums]: [&mut [f32]; 2],
) {
    let width = weight.len();
    for ((x, grad), &[mean, inverse]) in x.chunks_exact(width).zip(grad.chunks_exact_mut(width)).zip(stats) {
        let (weight, weight_sums, bias_sums) =
            (&weight[..width], &mut weight_sums[..width], &mut bias_sums[..width]);
        let sums = weight_sums.iter_mut().zip(bias_sums.iter_mut());
        for (((weight_sum, bias_sum), &grad), &x) in sums.zip(&*grad).zip(x) {
            *weight_sum += grad * ((x - mean) * inverse);
            *bias_sum += grad;
        }
        let along = sum(width, |i| grad[i] * weight[i]) / width as f32;
        let across = sum(width, |i| grad[i] * weight[i] * ((x[i] - mean) * inverse)) / width as f32;
        for ((grad, &x), &w) in grad.iter_mut().zip(x).zip(weight) {
            let normal = (x - mean) * inverse;
            *grad = inverse * (*grad * w - along - normal * across);
        }
    }
}

/// Turns a row of scores into its softmax; returns the largest score and the inverse of the sum of exponentials.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn softmax(row: &mut [f32], scale: f32) -> [f32; 2] {
    row.iter_mut().for_each(|x| *x *= scale);
    let top = largest(row);
    let inverse = 1.0 / exponentials(row, top);
    row.iter_mut().for_each(|x| *x *= inverse);
    [top, inverse]
}

/// As [`softmax`]; returns the entropy of the result too, nats.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn softmax_and_entropy(row: &mut [f32], scale: f32) -> ([f32; 2], f32) {
    row.iter_mut().for_each(|x| *x *= scale);
    let top = largest(row);
    let mut inner = [0f32; LANES];
    let mut exponentiate = |group: &mut [f32]| {
        for (x, inner) in group.iter_mut().zip(&mut inner) {
            let below = *x - top;
            *x = math::exp(below);
            *inner += below * *x;
        }
    };
    let (groups, rest) = row.as_chunks_mut::<LANES>();
    groups.iter_mut().for_each(|group| exponentiate(group));
    exponentiate(rest);
    let (inner, total) = (add_up(inner), sum(row.len(), |i| row[i]));
    let inverse = 1.0 / total;
    row.iter_mut().for_each(|x| *x *= inverse);
    ([top, inverse], total.ln() - inner * inverse)
}

/// The result of [`softmax`] for a row whose largest score and inverse sum are known.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn recompute_softmax(row: &mut [f32], scale: f32, [top, inverse]: [f32; 2]) {
    for x in row {
        *x = math::exp(*x * scale - top) * inverse;
    }
}

/// `e^(x - top)` in place of x, and their sum.
#[inline(always)]
fn exponentials(row: &mut [f32], top: f32) -> f32 {
    row.iter_mut().for_each(|x| *x = math::exp(*x - top));
    sum(row.len(), |i| row[i])
}

/// Turns the gradient of a softmax into that of its scores.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn softmax_backward(softmax: &[f32], grad: &mut [f32]) {
    let softmax = &softmax[..grad.len()];
    let inner = sum(grad.len(), |i| grad[i] * softmax[i]);
    for (grad, p) in grad.iter_mut().zip(softmax) {
        *grad = p * (*grad - inner);
    }
}

/// `x` times `factor`, element by element.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn multiply(x: &mut [f32], factors: &[f32]) {
    x.iter_mut().zip(factors).for_each(|(x, factor)| *x *= factor);
}

/// `x` times `factor`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn scale(x: &mut [f32], factor: f32) {
    x.iter_mut().for_each(|x| *x *= factor);
}

/// The cross-entropy of a row of logits and a target, nats.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn cross_entropy(row: &[f32], target: usize) -> f32 {
    let top = largest(row);
    sum(row.len(), |i| math::exp(row[i] - top)).ln() - (row[target] - top)
}

/// As [`cross_entropy`]; replaces the logits by its gradient times `share`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(super) fn cross_entropy_and_gradient(row: &mut [f32], target: usize, share: f32) -> f32 {
    let top = largest(row);
    let at_target = row[target] - top;
    let sum = exponentials(row, top);
    let factor = share / sum;
    row.iter_mut().for_each(|x| *x *= factor);
    row[target] -= share;
    sum.ln() - at_target
}

/// Logarithms of the softmax of a row of logits.
pub(super) fn log_softmax(row: &mut [f32]) {
    let top = largest(row);
    let log = sum(row.len(), |i| math::exp(row[i] - top)).ln();
    row.iter_mut().for_each(|x| *x = *x - top - log);
}
