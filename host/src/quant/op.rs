//! Fake quantization as one differentiable operation on every backend.
//!
//! Forward: the format's rounding, on the device the tensor lives on. Backward: the straight-through estimator. An
//! operation cannot return an error, so a failed call leaves NaN in its result and the reason in the
//! [`DeviceFormat`]; reading the statistics raises it. Gradients are rounded in [`super::product`].

use std::sync::Arc;

use altgrad_plugin_api::{RandomKey, Rounding};
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    flex::{FlexTensor, Layout},
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::{Bytes, Element, Shape, Tensor, TensorData};

use super::{
    DeviceFormat, Unread, Watch,
    scale::{ScaleRule, ScaleSource},
};

/// Which gradient a rounded value passes on to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ste {
    /// All of it.
    #[default]
    Identity,
    /// None where the source saturated.
    Clipped,
    /// None where the source is not positive.
    Relu,
}

/// One call: the format and everything about how it is applied.
#[derive(Debug, Clone)]
pub struct Call {
    /// The format.
    pub format: Arc<DeviceFormat>,
    /// The rounding mode.
    pub rounding: Rounding,
    /// Where stochastic rounding takes its bits; other modes ignore it.
    pub key: RandomKey,
    /// Where scales come from.
    pub scale: ScaleSource,
    /// The gradient.
    pub ste: Ste,
    /// Elements that are no values of the tensor but zeros that fill up its rows.
    pub filling: usize,
    /// Where the distribution of what is rounded goes, if someone watches.
    pub watch: Option<Arc<Watch>>,
}

impl Call {
    /// To nearest, ties to even, values as they are.
    #[must_use]
    pub fn plain(format: Arc<DeviceFormat>) -> Self {
        Self {
            format,
            rounding: Rounding::NearestEven,
            key: RandomKey::default(),
            scale: ScaleSource::ONE,
            ste: Ste::Identity,
            filling: 0,
            watch: None,
        }
    }
}

/// The operations, as burn's backends see them.
///
/// Statistics of a call are two float tensors: u32 words as bit patterns, and sums;
/// `DeviceFormat::statistics_shape` says how many.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait FormatOps: Backend {
    /// `round(x * scale) * inv_scale` on the format's grid, words and sums. Shape of the first: `x`'s; of `scales`:
    /// `[groups, 2]`, scale and inverse of consecutive elements.
    #[fusion(meta = rounded)]
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        call: Arc<Call>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Dynamic scales: `[groups, 2]`, scale and inverse.
    #[fusion(meta = scaled)]
    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self>;
}

#[cfg(feature = "gpu")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "gpu")]
fn float(len: usize) -> TensorSpec {
    TensorSpec::new(Shape::from([len]), burn::tensor::DType::F32)
}

/// Shapes of [`FormatOps::fake_quant`]'s results.
#[cfg(feature = "gpu")]
fn rounded(x: &TensorSpec, _: &TensorSpec, call: &Arc<Call>) -> (TensorSpec, TensorSpec, TensorSpec) {
    let [words, sums] = call.format.statistics_shape(x.shape.num_elements());
    (x.clone(), float(words), float(sums))
}

/// Shape of [`FormatOps::scales`]' result.
#[cfg(feature = "gpu")]
fn scaled(x: &TensorSpec, rule: &ScaleRule) -> TensorSpec {
    let elements = x.shape.num_elements();
    TensorSpec::new(Shape::from([elements / rule.group_len(elements), 2]), burn::tensor::DType::F32)
}

/// A rounded tensor and what rounding saw.
#[derive(Debug)]
pub struct Rounded<const D: usize> {
    /// Same shape as the source; its gradient is the source's.
    pub values: Tensor<D>,
    /// `[groups, 2]`: the scales and their inverses.
    pub scales: Tensor<2>,
    /// The statistics, not read yet.
    pub seen: Unread,
}

/// Rounds `x`.
#[must_use]
pub fn fake_quant<const D: usize>(x: Tensor<D>, call: Call) -> Rounded<D> {
    let (format, elements) = (call.format.clone(), x.shape().num_elements() as u64);
    let x = x.into_dispatch();
    let scales = scales::<Dispatch>(&x, call.scale);
    let (values, words, sums) = <Dispatch as FormatOps>::fake_quant(x, scales.clone(), Arc::new(call));
    let (words, sums) = (untracked(Tensor::from_dispatch(words)), untracked(Tensor::from_dispatch(sums)));
    let seen = Unread { format, elements, words, sums };
    Rounded { values: Tensor::from_dispatch(values), scales: Tensor::from_dispatch(scales), seen }
}

/// The scales of a call on `x`.
pub(super) fn scales<B: FormatOps>(x: &FloatTensor<B>, source: ScaleSource) -> FloatTensor<B> {
    match source {
        ScaleSource::Fixed(scales) => {
            B::float_from_data(TensorData::new(scales.to_vec(), [1, 2]), &x.device())
        }
        ScaleSource::Dynamic(rule) => B::scales(x.clone(), rule),
    }
}

/// The tensor outside of any graph, so that tensors of all passes can be read together.
fn untracked(tensor: Tensor<1>) -> Tensor<1> {
    if tensor.device().is_autodiff() { tensor.inner() } else { tensor }
}

pub(crate) fn flex<E: Element>(values: Vec<E>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), E::dtype())
}

/// The elements of a contiguous tensor.
pub(crate) fn elements(x: &FlexTensor) -> &[f32] {
    let Some(elements) = x.as_slice::<f32>() else { unreachable!("the host makes f32 tensors only") };
    elements
}

/// The plugin's CPU function, on the tensor's own memory.
impl FormatOps for Flex {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        call: Arc<Call>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (shape, x, scales) = (x.shape(), x.to_contiguous(), scales.to_contiguous());
        let (values, words) = call.format.on_host(elements(&x), pairs(elements(&scales)), &call);
        let len = Shape::from([words.len()]);
        (flex(values, shape), flex(words, len), flex(vec![0f32], Shape::from([1])))
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        let x = x.to_contiguous();
        let scales = super::format::dynamic_scales(elements(&x), &rule);
        let shape = Shape::from([scales.len(), 2]);
        flex(scales.into_flattened(), shape)
    }
}

/// The straight-through estimator; the state says where nothing passes.
#[derive(Debug)]
struct StraightThrough;

impl<B: Backend> Backward<B, 1> for StraightThrough {
    type State = Option<BoolTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let blocked = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| match blocked {
            Some(blocked) => B::float_mask_fill(grad, blocked, 0f32.into()),
            None => grad,
        });
    }
}

/// Scales with their inverses.
pub(super) fn pairs(scales: &[f32]) -> &[[f32; 2]] {
    scales.as_chunks().0
}

/// Where the estimator lets nothing through; `None` if it does everywhere.
fn blocked<B: FormatOps>(x: &FloatTensor<B>, scales: &FloatTensor<B>, call: &Call) -> Option<BoolTensor<B>> {
    let settings = burn::backend::get_device_settings::<B>(&x.device());
    match call.ste {
        Ste::Identity => None,
        Ste::Relu => Some(B::float_lower_equal_elem(x.clone(), 0f32.into(), settings.bool_dtype)),
        Ste::Clipped => {
            let (shape, groups) = (x.shape(), scales.shape()[0]);
            let flat = B::float_reshape(x.clone(), Shape::from([groups, shape.num_elements() / groups]));
            let scale = B::float_slice(scales.clone(), &[(0..groups).into(), (0..1).into()]);
            let scaled = B::float_mul(flat, scale);
            // What amax itself exceeds the largest value by is the scale's own rounding error, not saturation.
            let max = call.format.max_finite().next_up().next_up();
            let beyond = B::float_greater_elem(B::float_abs(scaled), max.into(), settings.bool_dtype);
            Some(B::bool_reshape(beyond, shape))
        }
    }
}

impl<B: FormatOps, C: CheckpointStrategy> FormatOps for Autodiff<B, C> {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        call: Arc<Call>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let node = x.node();
        let (x, scales) = (x.into_primitive(), scales.into_primitive());
        let constant = <Self as burn::backend::AutodiffBackend>::from_inner;
        match <StraightThrough as Backward<B, 1>>::prepare::<C>(StraightThrough, [node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let blocked = blocked::<B>(&x, &scales, &call);
                let (y, words, sums) = B::fake_quant(x, scales, call);
                (prep.finish(blocked, y), constant(words), constant(sums))
            }
            OpsKind::UnTracked(prep) => {
                let (y, words, sums) = B::fake_quant(x, scales, call);
                (prep.finish(y), constant(words), constant(sums))
            }
        }
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        <Self as burn::backend::AutodiffBackend>::from_inner(B::scales(x.into_primitive(), rule))
    }
}
