//! The interface of hand-written differentiable operations with kernels for GPUs.
//!
//! An operation implements [`DeviceFunction`] beside its [`CpuFunction`](super::CpuFunction). The tensor library's
//! fusion takes it for one opaque operation, whatever the number of its kernels.

use std::{fmt::Debug, sync::Arc};

use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    fusion::custom::TensorSpec,
    tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};

use crate::{cube_parts::has_rows, tensor::untracked};

/// A differentiable operation on up to three f32 tensors of a GPU, contiguous unless it says otherwise.
pub trait DeviceFunction: Debug + Send + Sync + 'static {
    /// The inputs that it uses; the others are any tensors.
    fn inputs(&self) -> usize;

    /// True if the rows of the first input may be followed by padding, as a product has them on CUDA.
    fn reads_padded_rows(&self) -> bool {
        false
    }

    /// The shapes of the result, and of the tensor that is saved for the backward pass besides the inputs.
    fn shapes(&self, inputs: [&Shape; 3]) -> [Shape; 2];

    /// Writes the result and the saved tensor; the latter may be left as it is if nothing uses it, so that the
    /// operation is not `tracked`.
    fn forward(&self, inputs: [CubeTensor; 3], outputs: [CubeTensor; 2], tracked: bool);

    /// True if the saved tensor becomes the gradient of the first input, the only one that has one: `backward` then
    /// writes it in place, in the first of its destinations.
    fn saves_gradient(&self) -> bool {
        false
    }

    /// Writes the gradients of the inputs that it uses, from the gradient of the result.
    fn backward(&self, inputs: [CubeTensor; 3], saved: CubeTensor, grad: CubeTensor, to: [CubeTensor; 3]);
}

/// The application of a [`DeviceFunction`], for burn's backends.
#[backend_extension(Cube, Autodiff, Fusion)]
pub trait DeviceOps: Backend {
    /// `function` of three tensors, and what is saved, outside of any graph; `kept` says whether the caller uses the
    /// latter.
    #[fusion(default)]
    fn apply_on_device(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
        kept: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        Self::device_forward(a, b, c, function, kept)
    }

    /// The result, and what is saved.
    #[fusion(meta = forward_specs)]
    fn device_forward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
        tracked: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of the three inputs; `[1]`, without a meaning, for those that are not used.
    #[fusion(meta = backward_specs)]
    fn device_backward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

fn forward_specs(
    a: &TensorSpec,
    b: &TensorSpec,
    c: &TensorSpec,
    function: &Arc<dyn DeviceFunction>,
    _: &bool,
) -> (TensorSpec, TensorSpec) {
    let [y, saved] =
        function.shapes([&a.shape, &b.shape, &c.shape]).map(|shape| TensorSpec::new(shape, DType::F32));
    (y, saved)
}

fn backward_specs(
    a: &TensorSpec,
    b: &TensorSpec,
    c: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    function: &Arc<dyn DeviceFunction>,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    let [a, b, c] = gradient_shapes(&**function, [&a.shape, &b.shape, &c.shape])
        .map(|shape| TensorSpec::new(shape, DType::F32));
    (a, b, c)
}

/// The shapes of the gradients: those of the inputs that are used, `[1]` for the others.
fn gradient_shapes(function: &dyn DeviceFunction, inputs: [&Shape; 3]) -> [Shape; 3] {
    std::array::from_fn(|i| if i < function.inputs() { inputs[i].clone() } else { Shape::from([1]) })
}

/// An f32 tensor on the device of another, without values.
pub(super) fn empty(beside: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device(), shape, DType::F32)
}

impl DeviceOps for CubeBackend {
    fn device_forward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
        tracked: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let shapes = [a.shape(), b.shape(), c.shape()];
        let outputs = function.shapes(shapes.each_ref()).map(|shape| empty(&a, shape));
        function.forward(used([a, b, c], &*function), outputs.clone(), tracked);
        let [y, saved] = outputs;
        (y, saved)
    }

    fn device_backward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let shapes = [a.shape(), b.shape(), c.shape()];
        let [first, others @ ..] = gradient_shapes(&*function, shapes.each_ref());
        let (saved, first) = if function.saves_gradient() {
            let own = if saved.can_mut() { saved } else { saved.copy() };
            (own.clone(), own)
        } else {
            (saved, empty(&a, first))
        };
        let [second, third] = others.map(|shape| empty(&a, shape));
        let to = [first, second, third];
        function.backward(used([a, b, c], &*function), saved, into_contiguous(grad), to.clone());
        let [a, b, c] = to;
        (a, b, c)
    }
}

/// The inputs as `function` reads them; a new tensor `[1]` for each that is not used, because some devices bind no
/// buffer twice.
fn used(inputs: [CubeTensor; 3], function: &dyn DeviceFunction) -> [CubeTensor; 3] {
    let mut place = 0;
    inputs.map(|input| {
        place += 1;
        if place > function.inputs() {
            empty(&input, Shape::from([1]))
        } else if place == 1 && function.reads_padded_rows() && has_rows(&input) {
            input
        } else {
            into_contiguous(input)
        }
    })
}

#[derive(Debug)]
struct DeviceBackward;

impl<B: DeviceOps> Backward<B, 3> for DeviceBackward {
    /// Inputs, saved tensor, function.
    type State = ([FloatTensor<B>; 3], FloatTensor<B>, Arc<dyn DeviceFunction>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let ([a, b, c], saved, function) = ops.state;
        let used = function.inputs();
        let (a, b, c) = B::device_backward(a, b, c, saved, grad, function);
        for (parent, grad) in ops.parents.into_iter().zip([a, b, c]).take(used) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, grad);
            }
        }
    }
}

impl<B: DeviceOps, C: CheckpointStrategy> DeviceOps for Autodiff<B, C> {
    fn apply_on_device(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
        kept: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [a.node(), b.node(), c.node()];
        let [a, b, c] = [a, b, c].map(|input| input.into_primitive());
        let forward = |tracked| B::device_forward(a.clone(), b.clone(), c.clone(), function.clone(), tracked);
        let constant = <Self as AutodiffBackend>::from_inner;
        match <DeviceBackward as Backward<B, 3>>::prepare::<C>(DeviceBackward, nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let (y, saved) = forward(true);
                (prep.finish(([a, b, c], saved.clone(), function), y), constant(saved))
            }
            OpsKind::UnTracked(prep) => {
                let (y, saved) = forward(kept);
                (prep.finish(y), constant(saved))
            }
        }
    }

    fn device_forward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
        tracked: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        // `apply_on_device` puts the operation on the graph.
        let [a, b, c] = [a, b, c].map(|input| input.into_primitive());
        let (y, saved) = B::device_forward(a, b, c, function, tracked);
        (<Self as AutodiffBackend>::from_inner(y), <Self as AutodiffBackend>::from_inner(saved))
    }

    fn device_backward(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        function: Arc<dyn DeviceFunction>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [a, b, c] = [a, b, c].map(|input| input.into_primitive());
        let (a, b, c) = B::device_backward(a, b, c, saved.into_primitive(), grad.into_primitive(), function);
        let [a, b, c] = [a, b, c].map(<Self as AutodiffBackend>::from_inner);
        (a, b, c)
    }
}

/// `function` of `x` and up to two more tensors, on a GPU.
pub(super) fn apply<const D: usize, const E: usize>(
    x: Tensor<D>,
    others: [Option<Tensor<1>>; 2],
    function: impl DeviceFunction,
) -> Tensor<E> {
    apply_and_keep(x, others, function, false).0
}

/// The same, and what `function` saves, outside of any graph, if it is `kept`.
pub(super) fn apply_and_keep<const D: usize, const E: usize>(
    x: Tensor<D>,
    others: [Option<Tensor<1>>; 2],
    function: impl DeviceFunction,
    kept: bool,
) -> (Tensor<E>, Tensor<1>) {
    let unused = || x.clone().detach().into_dispatch();
    let [b, c] = others.map(|input| input.map_or_else(unused, Tensor::into_dispatch));
    let x = x.into_dispatch();
    let (y, saved) = <Dispatch as DeviceOps>::apply_on_device(x, b, c, Arc::new(function), kept);
    (Tensor::from_dispatch(y), untracked(Tensor::from_dispatch(saved)))
}
