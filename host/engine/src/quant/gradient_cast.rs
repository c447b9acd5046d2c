//! A cast of a gradient: the identity forward, and a cast in the backward pass.

use std::sync::Arc;

use burn::backend::{
    Autodiff, Dispatch, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::Tensor;

use super::{CastParams, GradientStats, cast::CastOps};

/// Casts of gradients, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait GradientCastOps: CastOps {
    /// The matrix `x`, whose gradient is cast. The gradients of `words` and `sums` are the statistics.
    #[fusion(default)]
    fn cast_gradient(
        x: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        params: Arc<CastParams>,
    ) -> FloatTensor<Self> {
        let _ = (words, sums, params);
        x
    }
}

impl GradientCastOps for Flex {}

#[cfg(feature = "gpu")]
impl GradientCastOps for burn_cubecl::CubeBackend {}

/// A matrix whose gradient is cast, and the future statistics of that; `zero` is the value of their leaves.
#[must_use]
pub fn cast_gradient(x: Tensor<2>, params: CastParams, zero: &Tensor<1>) -> (Tensor<2>, GradientStats) {
    let stats = GradientStats::new(&params.quant, x.shape().num_elements() as u64, zero);
    let (words, sums) = stats.leaves();
    let y = <Dispatch as GradientCastOps>::cast_gradient(
        x.into_dispatch(),
        words.into_dispatch(),
        sums.into_dispatch(),
        Arc::new(params),
    );
    (Tensor::from_dispatch(y), stats)
}

/// The cast of the gradient.
#[derive(Debug)]
struct CastBackward;

impl<B: CastOps> Backward<B, 3> for CastBackward {
    type State = Arc<CastParams>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x_parent, words_parent, sums_parent] = ops.parents;
        let grad = grads.consume::<B>(&ops.node);
        let (grad, _, words, sums) = B::cast(grad, ops.state);
        for (parent, values) in [(x_parent, grad), (words_parent, words), (sums_parent, sums)] {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, values);
            }
        }
    }
}

impl<B: GradientCastOps, C: CheckpointStrategy> GradientCastOps for Autodiff<B, C> {
    fn cast_gradient(
        x: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        params: Arc<CastParams>,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), words.node(), sums.node()];
        let x = x.into_primitive();
        match <CastBackward as Backward<B, 3>>::prepare::<C>(CastBackward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(params, x),
            OpsKind::UnTracked(prep) => prep.finish(x),
        }
    }
}
