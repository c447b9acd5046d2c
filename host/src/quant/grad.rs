//! Rounding of gradients: the identity forward, the format's rounding backward.
//!
//! What rounding saw comes out of the backward pass as the gradients of two probes, tensors that take part in nothing
//! else: gradients are the only thing a backward pass hands out.

use std::sync::Arc;

use burn::backend::{
    Autodiff, Dispatch,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};
use burn::tensor::{Device, Gradients as Tape, Tensor};

use super::{
    DeviceFormat, Unread,
    op::{self, Call, FormatOps},
};
use crate::model::params;

/// Where the statistics of a gradient's rounding will be.
#[derive(Debug)]
pub struct Probe {
    format: Arc<DeviceFormat>,
    /// Elements of the gradient.
    pub(super) elements: u64,
    words: Tensor<1>,
    sums: Tensor<1>,
}

impl Probe {
    /// The statistics, once the backward pass is done; `None` if no gradient came by.
    #[must_use]
    pub fn read(&self, tape: &Tape) -> Option<Unread> {
        let (words, sums) = (self.words.grad(tape)?, self.sums.grad(tape)?);
        Some(Unread { format: self.format.clone(), elements: self.elements, words, sums })
    }
}

/// `x`, whose gradient `call` will round, and where to find what it saw.
#[must_use]
pub fn round_gradient<const D: usize>(x: Tensor<D>, call: Call) -> (Tensor<D>, Probe) {
    let probe = || zero(&x.device()).require_grad();
    let (words, sums) = (probe(), probe());
    let (format, elements) = (call.format.clone(), x.shape().num_elements() as u64);
    let y = <Dispatch as FormatOps>::round_gradient(
        x.into_dispatch(),
        words.clone().into_dispatch(),
        sums.clone().into_dispatch(),
        Arc::new(call),
    );
    (Tensor::from_dispatch(y), Probe { format, elements, words, sums })
}

fn zero(device: &Device) -> Tensor<1> {
    params::flat(vec![0.0], device)
}

#[derive(Debug)]
struct RoundGradient;

impl<B: FormatOps> Backward<B, 3> for RoundGradient {
    type State = Arc<Call>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let scales = op::scales::<B>(&grad, ops.state.scale);
        let (grad, words, sums) = B::fake_quant(grad, scales, ops.state);
        for (parent, value) in ops.parents.into_iter().zip([grad, words, sums]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, value);
            }
        }
    }
}

pub(super) fn round_gradient_autodiff<B: FormatOps, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    words: FloatTensor<Autodiff<B, C>>,
    sums: FloatTensor<Autodiff<B, C>>,
    call: Arc<Call>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = [x.node(), words.node(), sums.node()];
    let y = x.into_primitive();
    match <RoundGradient as Backward<B, 3>>::prepare::<C>(RoundGradient, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(call, y),
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}
