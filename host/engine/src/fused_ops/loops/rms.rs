//! The loops of RMSNorm.

use multiversion::multiversion;

use super::sum;

/// RMSNorm of rows as wide as `weight`; `inverses` are each row's inverse root mean square.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn rms_norm(
    x: &[f32],
    weight: &[f32],
    epsilon: f32,
    y: &mut [f32],
    inverses: &mut [f32],
) {
    let width = weight.len();
    for ((x, y), kept) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(inverses) {
        let inverse = 1.0 / (sum(width, |i| x[i] * x[i]) / width as f32 + epsilon).sqrt();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * inverse * w;
        }
        *kept = inverse;
    }
}

/// Turns the gradient of RMSNorm's result into that of `x`, and adds that of the weight to `weight_sums`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn rms_norm_backward(
    x: &[f32],
    weight: &[f32],
    inverses: &[f32],
    grad: &mut [f32],
    weight_sums: &mut [f32],
) {
    let width = weight.len();
    for ((x, grad), &inverse) in x.chunks_exact(width).zip(grad.chunks_exact_mut(width)).zip(inverses) {
        let (weight, weight_sums) = (&weight[..width], &mut weight_sums[..width]);
        for ((weight_sum, &grad), &x) in weight_sums.iter_mut().zip(&*grad).zip(x) {
            *weight_sum += grad * (x * inverse);
        }
        let across = sum(width, |i| grad[i] * weight[i] * (x[i] * inverse)) / width as f32;
        for ((grad, &x), &w) in grad.iter_mut().zip(x).zip(weight) {
            *grad = inverse * (*grad * w - x * inverse * across);
        }
    }
}
