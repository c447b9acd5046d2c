//! The loops of SwiGLU, a row at a time: the gate's half, then the linear half.

use multiversion::multiversion;

use super::{largest, math};

/// `y = silu(gate) * (linear / scale)`.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn swiglu(x: &[f32], scale: f32, y: &mut [f32]) {
    let (gate, linear) = x.split_at(y.len());
    if scale == 1.0 {
        for ((y, &gate), &linear) in y.iter_mut().zip(gate).zip(linear) {
            *y = gate * math::sigmoid(gate) * linear;
        }
    } else {
        for ((y, &gate), &linear) in y.iter_mut().zip(gate).zip(linear) {
            *y = gate * math::sigmoid(gate) * (linear / scale);
        }
    }
}

/// The gradients of both halves, from that of the result. The scale counts as a constant.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn swiglu_backward(x: &[f32], scale: f32, grad: &[f32], to: &mut [f32]) {
    let (gate, linear) = x.split_at(grad.len());
    let (to_gate, to_linear) = to.split_at_mut(grad.len());
    let halves = to_gate.iter_mut().zip(to_linear).zip(gate.iter().zip(linear));
    for (((to_gate, to_linear), (&gate, &linear)), &grad) in halves.zip(grad) {
        let sigmoid = math::sigmoid(gate);
        let grad = grad / scale;
        *to_gate = grad * linear * (sigmoid * (1.0 + gate * (1.0 - sigmoid)));
        *to_linear = grad * (gate * sigmoid);
    }
}

/// The largest magnitude of a row; NaN does not count.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn largest_magnitude(x: &[f32], magnitudes: &mut [f32]) -> f32 {
    for (magnitude, x) in magnitudes.iter_mut().zip(x) {
        *magnitude = x.abs();
    }
    largest(magnitudes)
}
