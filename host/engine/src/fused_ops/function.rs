//! The interface of hand-written differentiable operations to the tensor library.
//!
//! An operation implements [`CpuFunction`]; [`apply`] puts it on the autodiff graph.

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
use burn::tensor::{Device, Tensor};

use crate::tensor;

/// Elements of a parallel task. Fixed, so that sums do not depend on the number of threads.
pub(super) const CHUNK: usize = 1 << 14;

/// The tensors that an operation saves for its backward pass.
pub(super) type SavedTensors = Vec<FlexTensor>;

/// A differentiable operation on up to three contiguous f32 tensors. An input that it does not use is `[1]`.
pub trait CpuFunction: Debug + Send + Sync + 'static {
    /// The result and, if the operation is `tracked` by autodiff, the tensors that the backward pass needs.
    fn forward(&self, inputs: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors);

    /// The gradients of the inputs that are `wanted`, from the gradient of the result.
    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3];
}

/// The application of a [`CpuFunction`], for burn's backends.
#[backend_extension(Flex, Autodiff)]
pub trait CpuOps: Backend {
    /// `function` of three tensors.
    fn apply(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn CpuFunction>,
    ) -> FloatTensor<Self>;
}

impl CpuOps for Flex {
    fn apply(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn CpuFunction>,
    ) -> FloatTensor<Self> {
        function.forward([a, b, c].map(|input| input.to_contiguous()), false).0
    }
}

#[derive(Debug)]
struct CpuBackward;

impl Backward<Flex, 3> for CpuBackward {
    type State = (SavedTensors, Arc<dyn CpuFunction>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (saved, function) = ops.state;
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let input_grads = function.backward(saved, grad, wanted);
        for (parent, grad) in ops.parents.into_iter().zip(input_grads) {
            if let (Some(parent), Some(grad)) = (parent, grad) {
                grads.register::<Flex>(parent.id, grad);
            }
        }
    }
}

impl<C: CheckpointStrategy> CpuOps for Autodiff<Flex, C> {
    fn apply(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn CpuFunction>,
    ) -> FloatTensor<Self> {
        let nodes = [a.node(), b.node(), c.node()];
        let inputs = [a, b, c].map(|input| input.into_primitive().to_contiguous());
        match <CpuBackward as Backward<Flex, 3>>::prepare::<C>(CpuBackward, nodes).compute_bound().stateful()
        {
            OpsKind::Tracked(prep) => {
                let (y, saved) = function.forward(inputs, true);
                prep.finish((saved, function), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(function.forward(inputs, false).0),
        }
    }
}

/// True if a device has these operations: only the CPU has.
#[must_use]
pub fn is_available(device: &Device) -> bool {
    match device.as_dispatch() {
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => matches!(inner.clone().inner(), DispatchDevice::Flex(_)),
        #[allow(unreachable_patterns)]
        _ => false,
    }
}

/// `function` of `x` and up to two more tensors.
pub(super) fn apply<const D: usize, const E: usize>(
    x: Tensor<D>,
    [b, c]: [Option<Tensor<1>>; 2],
    function: impl CpuFunction,
) -> Tensor<E> {
    let device = x.device();
    let [b, c] =
        [b, c].map(|input| input.unwrap_or_else(|| tensor::flat(vec![0.0], &device)).into_dispatch());
    Tensor::from_dispatch(<Dispatch as CpuOps>::apply(x.into_dispatch(), b, c, Arc::new(function)))
}

/// `function` of `x` and up to two more tensors: on the CPU, or by the kernels of a GPU.
#[cfg(feature = "gpu")]
pub(super) fn apply_anywhere<const D: usize, const E: usize>(
    x: Tensor<D>,
    inputs: [Option<Tensor<1>>; 2],
    function: impl CpuFunction + super::device::DeviceFunction,
) -> Tensor<E> {
    if is_available(&x.device()) {
        apply(x, inputs, function)
    } else {
        super::device::apply(x, inputs, function)
    }
}

#[cfg(not(feature = "gpu"))]
pub(super) use apply as apply_anywhere;
