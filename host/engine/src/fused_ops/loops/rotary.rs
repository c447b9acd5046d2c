//! The loop of rotary positions.

use multiversion::multiversion;

/// Rotates each head of `row` by the angles of its position: elements i and i + `cos.len()` of a head are a pair.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn rotate(row: &mut [f32], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    for head in row.chunks_exact_mut(2 * half) {
        let (first, second) = head.split_at_mut(half);
        for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}
