//! The language-model head and the mean cross-entropy of its logits, some rows at a time. The logits of a whole batch
//! are by far the largest tensor of a step and never exist at once.

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply},
    loops, loss,
};
use crate::{
    matrix::Matrix,
    tensor::{
        bf16,
        cpu::{elements, flat, from_elements, zeros},
        matmul,
    },
};

/// Rows whose logits exist at once.
pub(crate) const ROWS: usize = matmul::INNER;

/// Mean of `-log softmax(x w^T)[target]`, nats: `[1]`; bit-identical to [`loss::cross_entropy`](super::loss) of the
/// product, and its gradients. On the CPU only. `bf16` is the gradient that the loss will have in the backward pass: if
/// it is given, the gradient of the logits is rounded to bf16 before it is multiplied. Shapes: `x` `[rows, in]`, `w`
/// `[vocab, in]`, one target per row.
#[must_use]
pub fn cross_entropy(x: Tensor<2>, w: Tensor<2>, targets: &[i32], bf16: Option<f32>) -> Tensor<1> {
    let ([_, inner], [vocab, _]) = (x.dims(), w.dims());
    let targets = targets.iter().map(|&target| target as usize).collect();
    apply(x, [Some(w.reshape([vocab * inner])), None], HeadLoss { targets, inner, vocab, bf16 })
}

/// The loss from the head's input and its weight.
#[derive(Debug)]
struct HeadLoss {
    targets: Vec<usize>,
    inner: usize,
    vocab: usize,
    /// The gradient of the result, if that of the logits is rounded to bf16: rounding and a factor have an order.
    bf16: Option<f32>,
}

impl HeadLoss {
    /// The gradient of some logits as the products use it.
    fn round(&self, gradient: &mut [f32]) {
        let Some(factor) = self.bf16 else { return };
        gradient.par_chunks_mut(CHUNK).for_each(|part| {
            if factor != 1.0 {
                loops::scale(part, factor);
            }
            bf16::round_slice(part);
        });
    }
}

impl CpuFunction for HeadLoss {
    /// Saves both gradients, because the logits are not kept.
    fn forward(&self, [x, w, _]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let (inner, vocab) = (self.inner, self.vocab);
        let (values, weight) = (elements(&x), Matrix::rows(elements(&w), vocab, inner, inner));
        let [mut x_grad, mut w_grad] =
            if tracked { [zeros(values.len()), zeros(vocab * inner)] } else { [zeros(0), zeros(0)] };
        let mut logits = zeros(ROWS.min(self.targets.len()) * vocab);
        let (mut losses, mut first, share) = (Vec::new(), 0, 1.0 / self.targets.len() as f32);
        for targets in self.targets.chunks(ROWS) {
            let (from, len) = (first * inner, targets.len() * inner);
            let x = Matrix::rows(&values[from..from + len], targets.len(), inner, inner);
            let logits = &mut logits[..targets.len() * vocab];
            matmul::multiply(logits, x, weight.transposed(), false);
            if tracked {
                losses.extend(loss::losses_and_gradients(logits, targets, share));
                self.round(logits);
                let gradient = Matrix::rows(logits, targets.len(), vocab, vocab);
                matmul::multiply(&mut x_grad[from..from + len], gradient, weight, false);
                matmul::multiply(&mut w_grad, gradient.transposed(), x, first > 0);
            } else {
                losses.extend(loss::losses(logits, targets));
            }
            first += targets.len();
        }
        let saved = if tracked {
            vec![from_elements(x_grad, [self.targets.len(), inner].into()), flat(w_grad)]
        } else {
            Vec::new()
        };
        (loss::mean(&losses), saved)
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let factor = elements(&grad)[0] / self.bf16.unwrap_or(1.0);
        let mut saved = saved.into_iter().map(|gradient| loss::scale_gradient(gradient, factor));
        let [x, w] = [saved.next(), saved.next()];
        [x.filter(|_| wanted[0]), w.filter(|_| wanted[1]), None]
    }
}
