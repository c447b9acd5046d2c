//! The loop of z-loss.

use multiversion::multiversion;

use super::{exponentials, largest};

/// The cross-entropy of a row of logits and a target, nats, and `log(Z)^2`. Replaces the logits by `share` times the
/// gradient of the first and `coefficient` times that of the second.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(in crate::fused_ops) fn z_loss_and_gradient(
    row: &mut [f32],
    target: usize,
    share: f32,
    coefficient: f32,
) -> [f32; 2] {
    let top = largest(row);
    let at_target = row[target] - top;
    let sum = exponentials(row, top);
    let log_z = top + sum.ln();
    let factor = share * (1.0 + 2.0 * coefficient * log_z) / sum;
    row.iter_mut().for_each(|x| *x *= factor);
    row[target] -= share;
    [sum.ln() - at_target, log_z * log_z]
}
