//! Mean cross-entropy with z-loss (arXiv:2204.02311): the mean of `log(Z)^2` times a coefficient, Z being the softmax's
//! normaliser. It keeps Z near 1 and so the logits from drifting.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation};
use rayon::prelude::*;

use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply, is_available},
    loops,
    loss::{self, Targets},
};
use crate::{
    tensor::{
        cpu::{elements, flat, into_unique},
        untracked,
    },
    trace::TraceScope,
};

/// The differentiated loss, and the part of it that is reported.
#[derive(Debug)]
pub struct Objective {
    /// Mean cross-entropy and z-loss, nats: `[1]`.
    pub value: Tensor<1>,
    /// Mean cross-entropy alone, nats: `[1]`. It has no gradient.
    pub loss: Tensor<1>,
}

/// The objective of logits. Shapes: logits `[rows, vocab]`, one target per row. Records the logarithms and both
/// results.
#[must_use]
pub fn objective(
    logits: Tensor<2>,
    targets: Targets<'_>,
    coefficient: f64,
    scope: TraceScope<'_>,
) -> Objective {
    scope.record_with("log_softmax", || loss::log_softmax(untracked(logits.clone())));
    let objective = if is_available(&logits.device()) {
        let targets = targets.ids.iter().map(|&target| target as usize).collect();
        let both: Tensor<1> = apply(logits, [None, None], ZLoss { targets, coefficient: coefficient as f32 });
        Objective { value: both.clone().narrow(0, 0, 1), loss: untracked(both.narrow(0, 1, 1)) }
    } else {
        reference(logits, targets, coefficient)
    };
    scope.record("cross-entropy", &objective.loss);
    scope.record("with z-loss", &objective.value);
    objective
}

/// The same as a chain of tensor operations. `log Z` is the largest logit and the logarithm of the sum of exponentials
/// below it.
fn reference(logits: Tensor<2>, targets: Targets<'_>, coefficient: f64) -> Objective {
    let targets = targets.ids(&logits.device());
    let top = logits.clone().detach().set_require_grad(false).max_dim(1);
    let log_z = (logits.clone() - top.clone()).exp().sum_dim(1).log() + top;
    let loss = activation::log_softmax(logits, 1).gather(1, targets).mean().neg();
    let value = loss.clone() + (log_z.clone() * log_z).mean().mul_scalar(coefficient);
    Objective { value, loss: untracked(loss) }
}

/// Objective and mean cross-entropy of logits: `[2]`. Only the first has a gradient.
#[derive(Debug)]
struct ZLoss {
    targets: Vec<usize>,
    coefficient: f32,
}

impl CpuFunction for ZLoss {
    /// Saves the gradient in the memory of the logits, because their exponentials are known here.
    fn forward(&self, [logits, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let (mut logits, rows) = (into_unique(logits), self.targets.len());
        let vocab = elements(&logits).len() / rows;
        let share = 1.0 / rows as f32;
        let parts = logits.storage_mut::<f32>().par_chunks_mut(vocab).zip(&self.targets);
        let sums: Vec<[f32; 2]> = parts
            .with_min_len(CHUNK.div_ceil(vocab))
            .map(|(row, &target)| loops::z_loss_and_gradient(row, target, share, self.coefficient))
            .collect();
        let mean = |index: usize| sums.iter().map(|sum| f64::from(sum[index])).sum::<f64>() / rows as f64;
        let (loss, square) = (mean(0), mean(1));
        let y = flat(vec![(loss + f64::from(self.coefficient) * square) as f32, loss as f32]);
        (y, if tracked { vec![logits] } else { Vec::new() })
    }

    fn backward(&self, mut saved: SavedTensors, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let factor = elements(&grad)[0];
        [saved.pop().map(|gradient| loss::scale_gradient(gradient, factor)), None, None]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        device::ComputeDevice,
        fused_ops::testing::compare,
        tensor::{read_f32, testing::numbers},
    };

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for [rows, vocab] in [[1, 1], [3, 5], [70, 300], [2, 40_000]] {
            let logits: Vec<f32> = numbers(1, rows * vocab).into_iter().map(|x| 8.0 * x).collect();
            let targets: Vec<i32> = (0..rows).map(|row| (row * 7919 % vocab) as i32).collect();
            let of = |op: fn(Tensor<2>, &[i32]) -> Objective| {
                let targets = targets.clone();
                move |[x]: [Tensor<1>; 1]| op(x.reshape([rows, vocab]), &targets).value
            };
            let op = |x: Tensor<2>, targets: &[i32]| objective(x, targets.into(), 0.1, TraceScope::OFF);
            compare(&[logits], 3e-6, of(op), of(|x, targets| reference(x, targets.into(), 0.1)));
        }
    }

    /// Four equal logits: the cross-entropy is ln 4 for any value, and log Z is the logit plus ln 4.
    #[test]
    fn equal_logits_have_the_z_loss_of_the_definition() {
        let device = ComputeDevice::cpu().tensors;
        for logit in [0.0, -3.0, 40.0] {
            let logits = crate::tensor::flat(vec![logit; 8], &device).reshape([2, 4]);
            let Objective { value, loss } = objective(logits, [1, 2][..].into(), 1e-2, TraceScope::OFF);
            let (value, loss) = (read_f32(value).unwrap()[0], read_f32(loss).unwrap()[0]);
            let log_z = f64::from(logit) + 4f64.ln();
            assert!((f64::from(loss) - 4f64.ln()).abs() < 1e-6, "{loss}");
            let expected = 4f64.ln() + 1e-2 * log_z * log_z;
            assert!((f64::from(value) - expected).abs() < 1e-6 * expected, "{value}, expected {expected}");
        }
    }
}
