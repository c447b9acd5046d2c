//! Fake quantization as one differentiable operation on every backend.
//!
//! Forward: the format's rounding, on the device the tensor lives on. Backward: straight through (the gradient
//! of the rounded tensor is passed on as the gradient of the tensor). The operation cannot return an error, so a
//! failed call leaves NaN in its result and the reason in the [`DeviceFormat`]; reading the statistics raises it.

use std::sync::Arc;

use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    flex::{FlexTensor, Layout},
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{Bytes, DType, Element, Shape, Tensor};

use super::{DeviceFormat, RoundingCall, Unread};
use crate::model::params;

/// The operation, as burn's backends see it.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait FormatOps: Backend {
    /// `round(x * scale) * inv_scale` on the format's grid, and the call's statistics: counts and sums.
    ///
    /// Shapes: `x` and the first result any, `scales` `[2]` (scale, inv_scale), statistics as
    /// [`DeviceFormat::statistics_shape`] says.
    #[fusion(meta = outputs)]
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        format: Arc<DeviceFormat>,
        call: RoundingCall,
    ) -> (FloatTensor<Self>, IntTensor<Self>, FloatTensor<Self>);
}

#[cfg(feature = "gpu")]
use burn::backend::fusion::custom::TensorSpec;

/// Shapes and types of the operation's results.
#[cfg(feature = "gpu")]
fn outputs(
    x: &TensorSpec,
    _scales: &TensorSpec,
    format: &Arc<DeviceFormat>,
    _call: &RoundingCall,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    let [counts, sums] = format.statistics_shape(x.shape.num_elements());
    let statistics = |len: usize, dtype| TensorSpec::new(Shape::from([len]), dtype);
    (x.clone(), statistics(counts, DType::U32), statistics(sums, DType::F32))
}

/// A rounded tensor and what rounding saw.
#[derive(Debug)]
pub struct Rounded<const D: usize> {
    /// Same shape as the source; its gradient is the source's.
    pub values: Tensor<D>,
    /// The statistics, not read yet.
    pub seen: Unread,
}

/// Rounds `x` with the two scales of `scales` (`[2]`: scale, inv_scale), which lie on the device.
#[must_use]
pub fn fake_quant<const D: usize>(
    x: Tensor<D>,
    scales: Tensor<1>,
    format: &Arc<DeviceFormat>,
    call: RoundingCall,
) -> Rounded<D> {
    let elements = x.shape().num_elements() as u64;
    let (values, counts, sums) =
        <Dispatch as FormatOps>::fake_quant(x.into_dispatch(), scales.into_dispatch(), format.clone(), call);
    let (counts, sums) = (Tensor::from_dispatch(counts), Tensor::from_dispatch(sums));
    let seen = Unread { format: format.clone(), elements, counts, sums };
    Rounded { values: Tensor::from_dispatch(values), seen }
}

/// `[2]`: a scale and its inverse, rounded once, on a device.
#[must_use]
pub fn scales(scale: f32, device: &burn::tensor::Device) -> Tensor<1> {
    params::flat(vec![scale, 1.0 / scale], device)
}

fn flex<E: Element>(values: Vec<E>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), E::dtype())
}

/// The plugin's CPU function, on the tensor's own memory.
impl FormatOps for Flex {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        format: Arc<DeviceFormat>,
        call: RoundingCall,
    ) -> (FloatTensor<Self>, IntTensor<Self>, FloatTensor<Self>) {
        let (shape, x, scales) = (x.shape(), x.to_contiguous(), scales.to_contiguous());
        let (Some(src), Some(&[scale, inv_scale])) = (x.as_slice::<f32>(), scales.as_slice::<f32>()) else {
            unreachable!("the host makes f32 tensors only, and scales by twos");
        };
        let (values, words) = format.on_host(src, [scale, inv_scale], call);
        let counts = Shape::from([words.len()]);
        (flex(values, shape), flex(words, counts), flex(vec![0f32], Shape::from([1])))
    }
}

/// The gradient goes straight through.
#[derive(Debug)]
struct StraightThrough;

impl<B: Backend> Backward<B, 1> for StraightThrough {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| grad);
    }
}

impl<B: Backend + FormatOps, C: CheckpointStrategy> FormatOps for Autodiff<B, C> {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        format: Arc<DeviceFormat>,
        call: RoundingCall,
    ) -> (FloatTensor<Self>, IntTensor<Self>, FloatTensor<Self>) {
        let node = x.node();
        let (y, counts, sums) = B::fake_quant(x.into_primitive(), scales.into_primitive(), format, call);
        let y = match <StraightThrough as Backward<B, 1>>::prepare::<C>(StraightThrough, [node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        };
        (y, counts, <Self as burn::backend::AutodiffBackend>::from_inner(sums))
    }
}
