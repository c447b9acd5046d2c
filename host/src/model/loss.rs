//! The log-probability of given ids as one differentiable operation, in memory that does not grow with the vocabulary.
//!
//! Written out, `log_softmax` and `gather` keep and pass back five tensors of the logits' size; with GPT-2's vocabulary that
//! is most of a step's memory. Here rows are handled some at a time: forward keeps the logits alone, backward turns
//! them into their gradient in place. Each row's arithmetic is the written-out one's, operation by operation, so that
//! the numbers are the same to the bit; a test holds that.

use std::{ops::Range, sync::Arc};

use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{IndexingUpdateOp, Tensor, TensorData};

/// Logits handled at a time, if that is a row at least.
const AT_A_TIME: usize = 1 << 23;

/// The operation, as burn's backends see it.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait LossOps: Backend {
    /// `log_softmax(logits)` at `targets`: `[rows, 1]`. Shapes: `logits` `[rows, vocab]`, `targets` `[rows]`, each below
    /// `vocab`.
    #[fusion(default)]
    fn log_likelihood(logits: FloatTensor<Self>, targets: Arc<Vec<i32>>) -> FloatTensor<Self> {
        let chosen = |rows: Range<usize>| {
            let Shifted { shifted, sum, .. } = Shifted::<Self>::of(&logits, rows.clone());
            let log_probs = Self::float_sub(shifted, Self::float_log(sum));
            let ids = ids::<Self>(&targets[rows], &logits);
            Self::float_gather(1, log_probs, ids)
        };
        let mut parts: Vec<FloatTensor<Self>> = chunks::<Self>(&logits).map(chosen).collect();
        match (parts.len(), parts.pop()) {
            (1, Some(part)) => part,
            (_, last) => Self::float_cat(parts.into_iter().chain(last).collect(), 0),
        }
    }
}

impl LossOps for Flex {}

#[cfg(feature = "gpu")]
impl LossOps for burn_cubecl::CubeBackend {}

/// The log-probability that logits give to targets: `[rows, 1]`. Shapes: `logits` `[rows, vocab]`, `targets` `[rows]`.
#[must_use]
pub fn log_likelihood(logits: Tensor<2>, targets: Vec<i32>) -> Tensor<2> {
    let chosen = <Dispatch as LossOps>::log_likelihood(logits.into_dispatch(), Arc::new(targets));
    Tensor::from_dispatch(chosen)
}

/// Rows to be handled together.
fn chunks<B: Backend>(logits: &FloatTensor<B>) -> impl Iterator<Item = Range<usize>> + use<B> {
    let [rows, vocab] = [logits.shape()[0], logits.shape()[1]];
    let step = (AT_A_TIME / vocab).max(1);
    (0..rows).step_by(step).map(move |from| from..(from + step).min(rows))
}

fn ids<B: Backend>(targets: &[i32], like: &FloatTensor<B>) -> IntTensor<B> {
    B::int_from_data(TensorData::new(targets.to_vec(), [targets.len(), 1]), &like.device())
}

/// Rows less their largest, the exponentials of that, and those summed.
struct Shifted<B: Backend> {
    shifted: FloatTensor<B>,
    exponentials: FloatTensor<B>,
    sum: FloatTensor<B>,
}

impl<B: Backend> Shifted<B> {
    fn of(logits: &FloatTensor<B>, rows: Range<usize>) -> Self {
        let whole = rows.len() == logits.shape()[0];
        let x = if whole { logits.clone() } else { B::float_slice(logits.clone(), &[rows.into()]) };
        let max = B::float_max_dim(x.clone(), 1);
        let shifted = B::float_sub(x, max);
        let exponentials = B::float_exp(shifted.clone());
        let sum = B::float_sum_dim(exponentials.clone(), 1);
        Self { shifted, exponentials, sum }
    }
}

#[derive(Debug)]
struct LogLikelihood;

impl<B: Backend> Backward<B, 1> for LogLikelihood {
    /// The logits, the targets.
    type State = (FloatTensor<B>, Arc<Vec<i32>>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (mut logits, targets) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            for rows in chunks::<B>(&logits) {
                let grad = B::float_slice(grad.clone(), &[rows.clone().into()]);
                let Shifted { exponentials, sum, shifted } = Shifted::<B>::of(&logits, rows.clone());
                drop(shifted);
                // -softmax times the gradient, plus the gradient itself at the target.
                let factor = B::float_mul(B::float_neg(grad.clone()), B::float_recip(sum));
                let all = B::float_mul(exponentials, factor);
                let ids = ids::<B>(&targets[rows.clone()], &logits);
                let part = B::float_scatter(1, all, ids, grad, IndexingUpdateOp::Add);
                // In place: nothing else holds the logits now.
                logits = B::float_slice_assign(logits, &[rows.into()], part);
            }
            logits
        });
    }
}

impl<B: LossOps, C: CheckpointStrategy> LossOps for Autodiff<B, C> {
    fn log_likelihood(logits: FloatTensor<Self>, targets: Arc<Vec<i32>>) -> FloatTensor<Self> {
        let node = logits.node();
        let logits = logits.into_primitive();
        match <LogLikelihood as Backward<B, 1>>::prepare::<C>(LogLikelihood, [node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let chosen = B::log_likelihood(logits.clone(), targets.clone());
                prep.finish((logits, targets), chosen)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::log_likelihood(logits, targets)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use burn::tensor::{Int, activation};
    use rand::RngExt;

    use super::*;
    use crate::{
        device::ComputeDevice,
        model::params,
        random::{self, Stream},
    };

    /// Loss and gradient of the logits, by the operation or written out.
    fn loss(values: &[f32], vocab: usize, targets: &[i32], written_out: bool) -> (Vec<f32>, Vec<f32>) {
        let device = ComputeDevice::cpu().tensors;
        let rows = targets.len();
        let leaf = Tensor::from_inner(params::flat(values.to_vec(), &device)).require_grad();
        let logits = leaf.clone().reshape([rows, vocab]);
        let chosen = if written_out {
            let ids: Tensor<2, Int> =
                Tensor::from_data(TensorData::new(targets.to_vec(), [rows, 1]), &logits.device());
            activation::log_softmax(logits, 1).gather(1, ids)
        } else {
            log_likelihood(logits, targets.to_vec())
        };
        // As a step does: the mean, scaled for accumulation.
        let loss = chosen.mean().neg();
        let value = params::read_f32(loss.clone().inner()).unwrap();
        let tape = loss.mul_scalar(1.0 / 3.0).backward();
        (value, params::read_f32(leaf.grad(&tape).unwrap()).unwrap())
    }

    #[test]
    fn the_numbers_are_those_of_the_written_out_operations() {
        // The last comes in three parts, of which the last is short.
        for (rows, vocab) in [(1, 1), (7, 5), (64, 257), (300, 50257)] {
            let mut generator = random::at(1, Stream::Sampling, vocab as u64);
            let values: Vec<f32> = (0..rows * vocab).map(|_| generator.random_range(-9.0..9.0)).collect();
            let targets: Vec<i32> = (0..rows).map(|_| generator.random_range(0..vocab as i32)).collect();
            let (ours, theirs) =
                (loss(&values, vocab, &targets, false), loss(&values, vocab, &targets, true));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&ours.0), bits(&theirs.0), "loss of {rows} x {vocab}");
            assert!(bits(&ours.1) == bits(&theirs.1), "gradient of {rows} x {vocab}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        for poison in [f32::NAN, f32::INFINITY] {
            let mut values = vec![0.5; 12];
            values[5] = poison;
            let (loss, gradient) = loss(&values, 4, &[0, 1, 2], false);
            assert!(loss[0].is_nan());
            assert!(gradient[4..8].iter().all(|value| value.is_nan()));
            assert!(gradient[..4].iter().all(|value| value.is_finite()));
        }
    }
}
