//! Fake quantization on every backend: the rounding of the format, on the device of the tensor.
//!
//! An operation cannot return an error, so a failed call leaves NaN in its result and the reason in the
//! [`DeviceFormat`](super::DeviceFormat). Reading the statistics returns that error.

use std::sync::Arc;

use burn::backend::{
    Autodiff, Dispatch, Flex, TensorMetadata, autodiff::checkpoint::strategy::CheckpointStrategy,
    backend_extension, flex::FlexTensor, tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor};

use super::{
    FakeQuantParams, PendingStats, SiteId,
    arrangement::TileOps,
    cpu::{self, Buffers},
    scale::{ScaleRule, ScaleSource, scale_pairs},
};
use crate::tensor::{
    contiguous,
    cpu::{elements, flat, from_elements, owns_buffer, zeros},
    untracked,
};

/// Fake quantization, for burn's backends.
///
/// The statistics of a call are two float tensors: u32 words as bit patterns, and sums.
/// `DeviceFormat::statistics_shape` gives their lengths.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait FakeQuantOps: TileOps {
    /// `round(x * scale) * inv_scale` on the grid of the format, and the words and sums of the statistics. The first
    /// has the shape of `x`. `scales` is `[groups, 2]`: scale and inverse of consecutive elements.
    #[fusion(meta = fake_quant_shapes)]
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Dynamic scales: `[groups, 2]`, scale and inverse.
    #[fusion(meta = scales_shape)]
    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self>;

    /// A scale and its inverse, `[1, 2]`, on the device of `x`. `site` is that of [`FakeQuantParams`].
    #[fusion(meta = pair_shape)]
    fn fixed_scale(x: FloatTensor<Self>, pair: [f32; 2], site: Option<SiteId>) -> FloatTensor<Self>;

    /// Values, scales, and the words and sums of the statistics, at the scales of the parameters.
    #[fusion(default)]
    fn scale_and_round(
        x: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let scales = scales::<Self>(&x, params.scale, params.site);
        let (values, words, sums) = Self::fake_quant(x, scales.clone(), params);
        (values, scales, words, sums)
    }
}

#[cfg(feature = "gpu")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "gpu")]
pub(super) fn flat_spec(len: usize) -> TensorSpec {
    TensorSpec::new(Shape::from([len]), burn::tensor::DType::F32)
}

/// Shapes of [`FakeQuantOps::fake_quant`]'s results.
#[cfg(feature = "gpu")]
fn fake_quant_shapes(
    x: &TensorSpec,
    _: &TensorSpec,
    params: &Arc<FakeQuantParams>,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    let [words, sums] = params.statistics_shape(x.shape.num_elements());
    (x.clone(), flat_spec(words), flat_spec(sums))
}

/// Shape of [`FakeQuantOps::scales`]' result.
#[cfg(feature = "gpu")]
fn scales_shape(x: &TensorSpec, rule: &ScaleRule) -> TensorSpec {
    let elements = x.shape.num_elements();
    TensorSpec::new(Shape::from([elements / rule.group_len(elements), 2]), burn::tensor::DType::F32)
}

/// Shape of [`FakeQuantOps::fixed_scale`]'s result.
#[cfg(feature = "gpu")]
fn pair_shape(_: &TensorSpec, _: &[f32; 2], _: &Option<SiteId>) -> TensorSpec {
    TensorSpec::new(Shape::from([1, 2]), burn::tensor::DType::F32)
}

/// A rounded tensor, its scales and the statistics of its rounding.
#[derive(Debug)]
pub struct FakeQuantOutput<const D: usize> {
    /// The rounded values, in the shape of the source.
    pub values: Tensor<D>,
    /// `[groups, 2]`: the scales and their inverses.
    pub scales: Tensor<2>,
    /// The statistics, on the device.
    pub stats: PendingStats,
}

/// Rounds `x` at the scales of the parameters.
#[must_use]
pub fn fake_quant<const D: usize>(x: Tensor<D>, params: FakeQuantParams) -> FakeQuantOutput<D> {
    let scales = scales_of(&x, params.scale);
    fake_quant_at(x, scales, params)
}

/// The scales of `x`: `[groups, 2]`, scale and inverse.
#[must_use]
pub fn scales_of<const D: usize>(x: &Tensor<D>, source: ScaleSource) -> Tensor<2> {
    Tensor::from_dispatch(scales::<Dispatch>(&x.clone().into_dispatch(), source, None))
}

/// Rounds `x` at these scales, `[groups, 2]`; the scales of the parameters are ignored.
#[must_use]
pub fn fake_quant_at<const D: usize>(
    x: Tensor<D>,
    scales: Tensor<2>,
    params: FakeQuantParams,
) -> FakeQuantOutput<D> {
    let (format, elements) = (params.format.clone(), x.shape().num_elements() as u64);
    let counted_by = params.counted_by();
    let (x, scales) = (x.into_dispatch(), scales.into_dispatch());
    let (values, words, sums) = <Dispatch as FakeQuantOps>::fake_quant(x, scales.clone(), Arc::new(params));
    let (words, sums) = (untracked(Tensor::from_dispatch(words)), untracked(Tensor::from_dispatch(sums)));
    let stats = PendingStats { format, counted_by, elements, words, sums };
    FakeQuantOutput { values: Tensor::from_dispatch(values), scales: Tensor::from_dispatch(scales), stats }
}

/// The scales of `x`: `[groups, 2]`. `site` is that of [`FakeQuantParams`].
pub(super) fn scales<B: FakeQuantOps>(
    x: &FloatTensor<B>,
    source: ScaleSource,
    site: Option<SiteId>,
) -> FloatTensor<B> {
    match source {
        ScaleSource::Fixed(pair) => B::fixed_scale(x.clone(), pair, site),
        ScaleSource::Dynamic(rule) => B::scales(x.clone(), rule),
    }
}

/// The CPU function of the plugin, on the memory of the tensor.
impl FakeQuantOps for Flex {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let scales = scales.to_contiguous();
        let (values, words) =
            rounded(x, |buffers| cpu::fake_quant(buffers, scale_pairs(elements(&scales)), &params));
        (values, flat(words), flat(vec![0.0]))
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        let x = contiguous(x);
        let scales = cpu::dynamic_scales(elements(&x), &rule);
        let shape = Shape::from([scales.len(), 2]);
        from_elements(scales.into_flattened(), shape)
    }

    fn fixed_scale(_: FloatTensor<Self>, pair: [f32; 2], _: Option<SiteId>) -> FloatTensor<Self> {
        from_elements(pair.to_vec(), Shape::from([1, 2]))
    }

    fn scale_and_round(
        x: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (values, (scales, words)) = rounded(x, |buffers| match params.scale {
            ScaleSource::Fixed(pair) => (vec![pair], cpu::fake_quant(buffers, &[pair], &params)),
            ScaleSource::Dynamic(rule) => cpu::fake_quant_dynamic(buffers, &rule, &params),
        });
        let scales_shape = Shape::from([scales.len(), 2]);
        let scales = from_elements(scales.into_flattened(), scales_shape);
        (values, scales, flat(words), flat(vec![0.0]))
    }
}

/// The tensor that `round` writes, in the memory of `x` if no other tensor shares it, and the value that it returns.
fn rounded<R>(x: FlexTensor, round: impl FnOnce(Buffers<'_>) -> R) -> (FlexTensor, R) {
    let mut x = contiguous(x);
    if owns_buffer(&x) {
        let result = round(Buffers::InPlace(x.storage_mut()));
        return (x, result);
    }
    let mut values = zeros(x.shape().num_elements());
    let result = round(Buffers::Apart(elements(&x), &mut values));
    (from_elements(values, x.shape()), result)
}

/// Rounding itself passes no gradient: [`cast`](super::cast()) does.
impl<B: FakeQuantOps, C: CheckpointStrategy> FakeQuantOps for Autodiff<B, C> {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let constant = <Self as burn::backend::AutodiffBackend>::from_inner;
        let (y, words, sums) = B::fake_quant(x.into_primitive(), scales.into_primitive(), params);
        (constant(y), constant(words), constant(sums))
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        <Self as burn::backend::AutodiffBackend>::from_inner(B::scales(x.into_primitive(), rule))
    }

    fn fixed_scale(x: FloatTensor<Self>, pair: [f32; 2], site: Option<SiteId>) -> FloatTensor<Self> {
        <Self as burn::backend::AutodiffBackend>::from_inner(B::fixed_scale(x.into_primitive(), pair, site))
    }
}
