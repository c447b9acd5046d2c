//! The loops of this crate, compiled for each width of SIMD registers; the CPU decides when they are called.
//!
//! Plugins are built for any x86-64 (or another CPU) and need not be built again. Results are the same to the bit on
//! every CPU: the loops say in which order numbers are added, and nothing is fused.

use multiversion::multiversion;

use crate::{
    Buffers,
    rule::{Geometry, Rule},
};

/// One pass over a parameter and its states.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn update<R: Rule>(rule: &R, buffers: Buffers<'_>) {
    let Buffers { param, grad, exp_avg, exp_avg_sq } = buffers;
    for (((w, &g), m), v) in param.iter_mut().zip(grad).zip(exp_avg).zip(exp_avg_sq) {
        *w = rule.apply(*w, g, m, v);
    }
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
