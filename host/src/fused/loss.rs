//! Mean cross-entropy of logits and targets.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, TensorData, activation};
use rayon::prelude::*;

use super::{Function, Kept, PART, apply, flat, loops, on, own, zeros};
use crate::{
    quant::op::{elements, flex},
    trace::At,
};

/// Mean of `-log softmax(logits)[target]`, nats: `[1]`. Shapes: logits `[rows, vocab]`, a target a row. Shows `at` the
/// logarithms.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, targets: &[i32], at: At<'_>) -> Tensor<1> {
    if !on(&logits.device()) {
        return plain(logits, targets, at);
    }
    let shape = logits.dims();
    let shown = at.probe("gradient of log_softmax", &logits.device());
    at.value_of("log_softmax", || apply::<2, 2>(untracked(&logits), [None, None], LogSoftmax));
    let targets = targets.iter().map(|&target| target as usize).collect();
    apply(logits, [shown, None], CrossEntropy { targets, shape })
}

/// The same, of tensor operations.
fn plain(logits: Tensor<2>, targets: &[i32], at: At<'_>) -> Tensor<1> {
    let (device, rows) = (logits.device(), targets.len());
    let log_probs = at.point("log_softmax", activation::log_softmax(logits, 1));
    let targets = Tensor::<2, Int>::from_data(TensorData::new(targets.to_vec(), [rows, 1]), &device);
    log_probs.gather(1, targets).mean().neg()
}

fn untracked(x: &Tensor<2>) -> Tensor<2> {
    if x.device().is_autodiff() { x.clone().inner() } else { x.clone() }
}

/// Of logits; the second input's gradient is that of the logarithms, flat.
#[derive(Debug)]
struct CrossEntropy {
    targets: Vec<usize>,
    /// Of the logits.
    shape: [usize; 2],
}

impl CrossEntropy {
    /// Rows a thread takes at once.
    fn rows(&self) -> usize {
        (PART / self.shape[1]).max(1)
    }

    fn share(&self) -> f32 {
        1.0 / self.shape[0] as f32
    }
}

impl Function for CrossEntropy {
    /// Keeps the gradient, in the place of the logits: their exponentials are at hand now.
    fn forward(&self, [logits, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept) {
        let ([_, vocab], rows, share) = (self.shape, self.rows(), self.share());
        let targets = self.targets.par_chunks(rows);
        let (losses, kept): (Vec<f64>, Kept) = if tracked {
            let mut logits = own(logits);
            let parts = logits.storage_mut::<f32>().par_chunks_mut(rows * vocab).zip(targets);
            let sum = |(part, targets): (&mut [f32], &[usize])| {
                let rows = part.chunks_exact_mut(vocab).zip(targets);
                rows.map(|(row, &target)| f64::from(loops::cross_entropy_and_gradient(row, target, share)))
                    .sum()
            };
            (parts.map(sum).collect(), vec![logits])
        } else {
            let parts = elements(&logits).par_chunks(rows * vocab).zip(targets);
            let sum = |(part, targets): (&[f32], &[usize])| {
                let rows = part.chunks_exact(vocab).zip(targets);
                rows.map(|(row, &target)| f64::from(loops::cross_entropy(row, target))).sum()
            };
            (parts.map(sum).collect(), Vec::new())
        };
        let mean = losses.iter().sum::<f64>() / self.shape[0] as f64;
        (flat(vec![mean as f32]), kept)
    }

    fn backward(&self, mut kept: Kept, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let factor = elements(&grad)[0];
        let logits = kept.pop().map(|gradient| {
            let mut gradient = own(gradient);
            if factor != 1.0 {
                let parts = gradient.storage_mut::<f32>().par_chunks_mut(PART);
                parts.for_each(|part| loops::scale(part, factor));
            }
            gradient
        });
        let logarithms = wanted[1].then(|| {
            let [rows, vocab] = self.shape;
            let mut gradient = zeros(rows * vocab);
            for (row, target) in gradient.chunks_exact_mut(vocab).zip(&self.targets) {
                row[*target] = -self.share() * factor;
            }
            flat(gradient)
        });
        [logits, logarithms, None]
    }
}

/// Logarithms of the softmax of rows `[rows, n]`; has no backward pass.
#[derive(Debug)]
struct LogSoftmax;

impl Function for LogSoftmax {
    fn forward(&self, [logits, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, Kept) {
        let (shape, mut values) = (logits.layout().shape().clone(), elements(&logits).to_vec());
        values.par_chunks_mut(shape[1].max(1)).for_each(loops::log_softmax);
        (flex(values, shape), Vec::new())
    }

    fn backward(&self, _: Kept, _: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [None, None, None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::testing::{compare, numbers};

    #[test]
    fn as_the_chain() {
        for [rows, vocab] in [[1, 1], [3, 5], [70, 300], [2, 40_000]] {
            let logits: Vec<f32> = numbers(1, rows * vocab).into_iter().map(|x| 8.0 * x).collect();
            let targets: Vec<i32> = (0..rows).map(|row| (row * 7919 % vocab) as i32).collect();
            let of = |op: fn(Tensor<2>, &[i32], At<'_>) -> Tensor<1>| {
                let targets = targets.clone();
                move |[x]: [Tensor<1>; 1]| op(x.reshape([rows, vocab]), &targets, At::NOWHERE)
            };
            compare(&[logits], 3e-6, of(cross_entropy), of(plain));
        }
    }
}
