//! The output layer and the mean cross-entropy of its logits, some rows at a time: the logits of a whole batch, by far
//! a step's largest tensor, never exist at once.

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

use super::{Function, Kept, apply, flat, loss, matmul, zeros};
use crate::{
    quant::op::{elements, flex},
    raw::Matrix,
};

/// Rows whose logits exist at once.
const ROWS: usize = matmul::INNER;

/// Mean of `-log softmax(x w^T)[target]`, nats: `[1]`; bit for bit what [`loss::cross_entropy`](super::loss) makes of the
/// product, and its gradients. On the CPU only. Shapes: `x` `[rows, in]`, `w` `[vocab, in]`, a target a row.
#[must_use]
pub fn cross_entropy(x: Tensor<2>, w: Tensor<2>, targets: &[i32]) -> Tensor<1> {
    let ([_, inner], [vocab, _]) = (x.dims(), w.dims());
    let targets = targets.iter().map(|&target| target as usize).collect();
    apply(x, [Some(w.reshape([vocab * inner])), None], Head { targets, inner, vocab })
}

/// Of input and weight.
#[derive(Debug)]
struct Head {
    targets: Vec<usize>,
    inner: usize,
    vocab: usize,
}

impl Function for Head {
    /// Keeps both gradients: the logits will not be there again.
    fn forward(&self, [x, w, _]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept) {
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
                let gradient = Matrix::rows(logits, targets.len(), vocab, vocab);
                matmul::multiply(&mut x_grad[from..from + len], gradient, weight, false);
                matmul::multiply(&mut w_grad, gradient.transposed(), x, first > 0);
            } else {
                losses.extend(loss::losses(logits, targets));
            }
            first += targets.len();
        }
        let kept = if tracked {
            vec![flex(x_grad, [self.targets.len(), inner].into()), flat(w_grad)]
        } else {
            Vec::new()
        };
        (loss::mean(&losses), kept)
    }

    fn backward(&self, kept: Kept, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let factor = elements(&grad)[0];
        let mut kept = kept.into_iter().map(|gradient| loss::scaled(gradient, factor));
        let [x, w] = [kept.next(), kept.next()];
        [x.filter(|_| wanted[0]), w.filter(|_| wanted[1]), None]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, fused::testing::numbers, model::params, quant::Quant, trace::At};

    #[test]
    fn as_the_product_and_its_loss_to_the_bit() {
        for [rows, inner, vocab] in [[1, 1, 1], [3, 2, 5], [70, 16, 300], [ROWS, 40, 7], [2500, 33, 2100]] {
            let device = ComputeDevice::cpu().tensors;
            let targets: Vec<i32> = (0..rows).map(|row| (row * 7919 % vocab) as i32).collect();
            let run = |whole: bool| {
                let leaf = |seed, rows| {
                    let values = params::flat(numbers(seed, rows * inner), &device);
                    Tensor::from_inner(values).require_grad()
                };
                let (x, w) = (leaf(1, rows), leaf(2, vocab));
                let matrices = (x.clone().reshape([rows, inner]), w.clone().reshape([vocab, inner]));
                let loss = if whole {
                    let logits = Quant::off().linear(0, matrices.0, matrices.1, 0, At::NOWHERE);
                    loss::cross_entropy(logits, &targets, At::NOWHERE)
                } else {
                    cross_entropy(matrices.0, matrices.1, &targets)
                };
                let tape = loss.clone().mul_scalar(0.5).backward();
                [loss.inner(), x.grad(&tape).unwrap(), w.grad(&tape).unwrap()]
                    .map(|tensor| params::read_f32(tensor).unwrap())
            };
            assert!(run(false) == run(true), "[{rows}, {inner}, {vocab}]");
        }
    }
}
