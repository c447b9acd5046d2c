//! The identity operation whose backward pass captures the gradient.
//!
//! A backward pass returns gradients of leaves only. So each captured gradient has a leaf of its own, a probe, which no
//! other operation uses.

use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor};

use crate::tensor::flat;

/// The operation, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait TraceOps: Backend {
    /// `x` itself, whose gradient, flat, becomes that of `probe`. Without gradients it does nothing.
    #[fusion(default)]
    fn capture_gradient(x: FloatTensor<Self>, probe: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = probe;
        x
    }
}

impl TraceOps for Flex {}

#[cfg(feature = "gpu")]
impl TraceOps for burn_cubecl::CubeBackend {}

/// `x`, and the leaf whose gradient will be `x`'s, flat.
pub(crate) fn capture_gradient<const D: usize>(x: Tensor<D>) -> (Tensor<D>, Tensor<1>) {
    let probe = flat(vec![0.0], &x.device()).require_grad();
    let y = <Dispatch as TraceOps>::capture_gradient(x.into_dispatch(), probe.clone().into_dispatch());
    (Tensor::from_dispatch(y), probe)
}

#[derive(Debug)]
struct CaptureGradient;

impl<B: Backend> Backward<B, 2> for CaptureGradient {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let flat = B::float_reshape(grad.clone(), Shape::from([grad.shape().num_elements()]));
        for (parent, value) in ops.parents.into_iter().zip([grad, flat]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, value);
            }
        }
    }
}

impl<B: TraceOps, C: CheckpointStrategy> TraceOps for Autodiff<B, C> {
    fn capture_gradient(x: FloatTensor<Self>, probe: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [x.node(), probe.node()];
        let y = x.into_primitive();
        <CaptureGradient as Backward<B, 2>>::prepare::<C>(CaptureGradient, nodes).compute_bound().stateless(y)
    }
}
