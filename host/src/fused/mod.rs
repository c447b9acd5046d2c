//! Operations of the model with hand-written forward and backward passes on the CPU.
//!
//! Each replaces a chain of tensor operations by one: fewer passes over memory, no temporaries, loops for the widest
//! registers of the machine (`loops`), parts of fixed size on all threads, so that results do not depend on their
//! number. Each keeps for its backward pass what it can not cheaply compute again. On another device, and as the
//! reference of the tests, the chain itself is used: it stands beside the operation as `plain`.

pub mod attention;
pub mod gelu;
pub mod head;
mod loops;
pub mod loss;
mod math;
pub(crate) mod matmul;
pub mod norm;
pub mod scale;
#[cfg(test)]
#[allow(clippy::expect_used)]
mod testing;

use std::{fmt::Debug, sync::Arc};

use burn::backend::{
    Autodiff, Backend, Dispatch, DispatchDevice, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    flex::FlexTensor,
    tensor::FloatTensor,
};
use burn::tensor::{Device, Shape, Tensor};

use crate::{
    model::params,
    quant::op::{elements, flex},
};

/// Elements a thread takes at once. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 14;

/// What an operation keeps for its backward pass.
type Kept = Vec<FlexTensor>;

/// An operation on contiguous f32 tensors; inputs that it has no use for are `[1]`.
pub trait Function: Debug + Send + Sync + 'static {
    /// The result; and, if it is `tracked`, what the backward pass needs.
    fn forward(&self, inputs: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept);

    /// The gradients of the inputs that are `wanted`, of that of the result.
    fn backward(&self, kept: Kept, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3];
}

/// The operations, as burn's backends see them.
#[backend_extension(Flex, Autodiff)]
pub trait FusedOps: Backend {
    /// `function` of three tensors.
    fn fused(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn Function>,
    ) -> FloatTensor<Self>;
}

impl FusedOps for Flex {
    fn fused(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn Function>,
    ) -> FloatTensor<Self> {
        function.forward([a, b, c].map(|input| input.to_contiguous()), false).0
    }
}

#[derive(Debug)]
struct FusedBackward;

impl Backward<Flex, 3> for FusedBackward {
    type State = (Kept, Arc<dyn Function>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (kept, function) = ops.state;
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = function.backward(kept, grad, wanted);
        for (parent, grad) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(grad)) = (parent, grad) {
                grads.register::<Flex>(parent.id, grad);
            }
        }
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn fused(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn Function>,
    ) -> FloatTensor<Self> {
        let nodes = [a.node(), b.node(), c.node()];
        let inputs = [a, b, c].map(|input| input.into_primitive().to_contiguous());
        match <FusedBackward as Backward<Flex, 3>>::prepare::<C>(FusedBackward, nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let (y, kept) = function.forward(inputs, true);
                prep.finish((kept, function), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(function.forward(inputs, false).0),
        }
    }
}

/// Whether a device has these operations.
#[must_use]
pub fn on(device: &Device) -> bool {
    match device.as_dispatch() {
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => matches!(inner.clone().inner(), DispatchDevice::Flex(_)),
        #[allow(unreachable_patterns)]
        _ => false,
    }
}

/// `function` of `x` and up to two more.
fn apply<const D: usize, const E: usize>(
    x: Tensor<D>,
    [b, c]: [Option<Tensor<1>>; 2],
    function: impl Function,
) -> Tensor<E> {
    let device = x.device();
    let [b, c] =
        [b, c].map(|input| input.unwrap_or_else(|| params::flat(vec![0.0], &device)).into_dispatch());
    Tensor::from_dispatch(<Dispatch as FusedOps>::fused(x.into_dispatch(), b, c, Arc::new(function)))
}

/// The tensor in a buffer that nothing else uses: its own, if that is so.
fn own(x: FlexTensor) -> FlexTensor {
    let whole = x.bytes().len() == size_of::<f32>() * x.layout().num_elements();
    if whole && x.is_contiguous() && x.is_unique() {
        return x;
    }
    flex(elements(&x).to_vec(), x.layout().shape().clone())
}

/// That many zeros.
fn zeros(len: usize) -> Vec<f32> {
    vec![0.0; len]
}

/// A tensor `[n]`.
fn flat(values: Vec<f32>) -> FlexTensor {
    let len = values.len();
    flex(values, Shape::from([len]))
}
