//! A cast of a matrix as one differentiable operation on every backend.
//!
//! Forward: transform, scales, rounding. Backward: the straight-through estimator, then the inverse transform. Blocks
//! run along the last axis; a caller that contracts over another transposes first.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Axis, Block, Cast, CastError, Hadamard, Overflow, Rounding as CastRounding, Shape};
use altgrad_config::SteChoice;
use altgrad_plugin_api::{RandomKey, Rounding};
use burn::backend::{
    Autodiff, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    FakeQuantOutput, FakeQuantParams, History, PendingStats, ScaleSource, TensorQuantizer,
    arrangement::Arrangement,
    fake_quant::{self, FakeQuantOps},
    matrix_cast,
};
use crate::tensor::{
    contiguous,
    cpu::{elements, flat, from_elements, into_unique},
    untracked,
};

/// A rotation of the rows of a matrix, whose width is a whole number of its tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotation {
    /// The transform.
    pub hadamard: Hadamard,
    /// The source of the random signs: the same for both operands of a product.
    pub key: RandomKey,
}

/// The parameters of one cast.
#[derive(Debug, Clone)]
pub struct CastParams {
    /// The rounding; its groups are the tiles of the arrangement.
    pub quant: FakeQuantParams,
    /// The tiles that share a scale.
    pub arrangement: Arrangement,
    /// A rotation before all else.
    pub rotation: Option<Rotation>,
    /// The axis of a mean that is subtracted and rounded by itself.
    pub center: Option<Axis>,
}

impl CastParams {
    /// The cast after the rotation, if it needs the whole matrix.
    fn of_matrix(&self) -> Option<Cast> {
        let scaling = match self.quant.scale {
            ScaleSource::Dynamic(rule) => rule.scaling,
            ScaleSource::Fixed(_) => altgrad_casts::Scaling::default(),
        };
        let is_scaled = matches!(self.quant.scale, ScaleSource::Dynamic(_));
        let own_blocks = is_scaled && self.quant.format.plugin().conventions.has_own_blocks();
        if self.center.is_none() && !scaling.needs_matrix() && !own_blocks {
            return None;
        }
        let block = match (self.quant.scale, self.arrangement) {
            (ScaleSource::Fixed(_), _) => Block::None,
            (ScaleSource::Dynamic(rule), _) if rule.group.is_none() => Block::Tensor,
            (_, Arrangement { tile: [1, along] }) => Block::Along(along),
            (_, Arrangement { tile }) => Block::Tile(tile),
        };
        let arithmetic = self.quant.arithmetic;
        let rounding = arithmetic.own.unwrap_or(match self.quant.rounding {
            Rounding::NEAREST_AWAY => CastRounding::NearestAway,
            Rounding::TOWARD_ZERO => CastRounding::TowardZero,
            Rounding::STOCHASTIC => CastRounding::Stochastic,
            _ => CastRounding::NearestEven,
        });
        let overflow = arithmetic.overflow.map_or(Overflow::Saturate, |_| Overflow::NonFinite);
        Some(Cast { rounding, block, scaling, transform: None, center: self.center, overflow })
    }
}

impl From<FakeQuantParams> for CastParams {
    /// A cast of a tensor whose rows are whole groups.
    fn from(quant: FakeQuantParams) -> Self {
        Self { quant, arrangement: Arrangement::NONE, rotation: None, center: None }
    }
}

/// Casts, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait CastOps: FakeQuantOps {
    /// Values, scales `[groups, 2]`, and the words and sums of the statistics, of a matrix.
    #[fusion(default)]
    fn cast(
        x: FloatTensor<Self>,
        params: Arc<CastParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        cast_rotated::<Self>(rotated::<Self>(x, &params), &params)
    }

    /// [`Self::cast`] without the rotation, of a cast that needs the whole matrix: on the CPU only. The setup refuses
    /// it elsewhere; here all values become NaN, and the format has the fault.
    #[fusion(default)]
    fn cast_matrix(
        x: FloatTensor<Self>,
        cast: Cast,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _ = cast;
        params.format.set_fault(Diagnostic::run("this device does not compute a cast of the whole matrix"));
        let plain =
            FakeQuantParams { scale: ScaleSource::ONE, site: None, ..FakeQuantParams::clone(&params) };
        Self::scale_and_round(Self::float_mul_scalar(x, f32::NAN.into()), Arc::new(plain))
    }

    /// `values` of a cast of `x` that was computed before: the gradient passes to `x`.
    #[fusion(default)]
    fn with_values(x: FloatTensor<Self>, values: FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = x;
        values
    }

    /// The rows rotated, or rotated back.
    #[fusion(meta = same_shape)]
    fn rotate(x: FloatTensor<Self>, rotation: Rotation, back: bool) -> FloatTensor<Self>;
}

/// Shape of [`CastOps::rotate`]'s result.
#[cfg(feature = "gpu")]
fn same_shape(
    x: &burn::backend::fusion::custom::TensorSpec,
    _: &Rotation,
    _: &bool,
) -> burn::backend::fusion::custom::TensorSpec {
    x.clone()
}

/// The rotation of a cast. If rows are no whole number of its tiles, all values are NaN and the format has the fault.
fn rotated<B: CastOps>(x: FloatTensor<B>, params: &CastParams) -> FloatTensor<B> {
    let Some(rotation) = params.rotation else { return x };
    let (length, size) = (x.shape()[1], rotation.hadamard.size);
    if length.is_multiple_of(size) {
        return B::rotate(x, rotation, false);
    }
    let error = CastError::Transform { length, size };
    params.quant.format.set_fault(Diagnostic::run(error.to_string()).hint(error.hint()));
    B::float_mul_scalar(x, f32::NAN.into())
}

/// A cast without its rotation.
fn cast_rotated<B: CastOps>(
    x: FloatTensor<B>,
    params: &CastParams,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    if let Some(cast) = params.of_matrix() {
        return B::cast_matrix(x, cast, Arc::new(params.quant.clone()));
    }
    let shape = [x.shape()[0], x.shape()[1]];
    let x = params.arrangement.arranged::<B>(x);
    let padding_elements = params.arrangement.padding(shape);
    let quant = FakeQuantParams { padding_elements, ..params.quant.clone() };
    let (values, scales, words, sums) = B::scale_and_round(x, Arc::new(quant));
    (params.arrangement.restored::<B>(values, shape), scales, words, sums)
}

/// Casts a matrix. The straight-through estimator passes the gradient of the values on.
#[must_use]
pub fn cast(x: Tensor<2>, params: CastParams) -> FakeQuantOutput<2> {
    let (format, elements) = (params.quant.format.clone(), x.shape().num_elements() as u64);
    let counted_by = params.quant.counted_by();
    let (values, scales, words, sums) = <Dispatch as CastOps>::cast(x.into_dispatch(), Arc::new(params));
    let (words, sums) = (untracked(Tensor::from_dispatch(words)), untracked(Tensor::from_dispatch(sums)));
    let stats = PendingStats { format, counted_by, elements, words, sums };
    FakeQuantOutput { values: Tensor::from_dispatch(values), scales: Tensor::from_dispatch(scales), stats }
}

/// The values of a cast of `x` with the straight-through estimator that is the identity; the cast was computed before,
/// outside of any graph.
#[cfg(feature = "gpu")]
pub(super) fn with_values(x: Tensor<2>, values: Tensor<2>) -> Tensor<2> {
    let values = if x.device().is_autodiff() { Tensor::from_inner(values) } else { values };
    let (x, values) = (x.into_dispatch(), values.into_dispatch());
    Tensor::from_dispatch(<Dispatch as CastOps>::with_values(x, values))
}

/// The scales that a site's scaling gives a matrix after this history, `[groups, 2]`, without a rotation.
pub(super) fn arranged_scales(x: &Tensor<2>, site: &TensorQuantizer, history: &History) -> Tensor<2> {
    let arranged = site.arrangement().arranged::<Dispatch>(x.clone().into_dispatch());
    Tensor::from_dispatch(fake_quant::scales::<Dispatch>(&arranged, site.scale(history), None))
}

/// Rounds a matrix at these scales; scales and rotations of the parameters are ignored. No gradient passes.
pub(super) fn cast_at(x: Tensor<2>, scales: Tensor<2>, params: CastParams) -> FakeQuantOutput<2> {
    let CastParams { quant, arrangement, .. } = params;
    let shape = x.dims();
    let (format, counted_by) = (quant.format.clone(), quant.counted_by());
    let quant = FakeQuantParams { padding_elements: arrangement.padding(shape), ..quant };
    let arranged = arrangement.arranged::<Dispatch>(x.into_dispatch());
    let (scales, quant) = (scales.into_dispatch(), Arc::new(quant));
    let (values, words, sums) = <Dispatch as FakeQuantOps>::fake_quant(arranged, scales.clone(), quant);
    let [words, sums] = [words, sums].map(|flat| untracked(Tensor::from_dispatch(flat)));
    let values = Tensor::from_dispatch(arrangement.restored::<Dispatch>(values, shape));
    let elements = (shape[0] * shape[1]) as u64;
    let stats = PendingStats { format, counted_by, elements, words, sums };
    FakeQuantOutput { values, scales: Tensor::from_dispatch(scales), stats }
}

impl CastOps for Flex {
    fn cast_matrix(
        x: FloatTensor<Self>,
        cast: Cast,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let x = contiguous(x);
        let shape = Shape { rows: x.shape()[0], columns: x.shape()[1] };
        let (values, pairs, words) = matrix_cast::cast(&cast, elements(&x), shape, &params);
        let pairs = from_elements(pairs.as_flattened().to_vec(), [pairs.len(), 2].into());
        (from_elements(values, x.shape()), pairs, flat(words), flat(vec![0.0]))
    }

    fn rotate(x: FloatTensor<Self>, rotation: Rotation, back: bool) -> FloatTensor<Self> {
        let mut x = into_unique(contiguous(x));
        rotate(x.storage_mut(), rotation, back);
        x
    }
}

/// Rotates consecutive tiles, or rotates them back, in place on all threads.
fn rotate(values: &mut [f32], rotation: Rotation, back: bool) {
    /// Elements of a parallel task, a multiple of all sizes of tiles.
    const CHUNK: usize = 1 << 15;
    values.par_chunks_mut(CHUNK).for_each(|part| {
        if back {
            rotation.hadamard.rotate_back(part, &rotation.key);
        } else {
            rotation.hadamard.rotate(part, &rotation.key);
        }
    });
}

/// The straight-through estimator, and the way back from a rotation.
#[derive(Debug)]
struct StraightThrough;

impl<B: CastOps> Backward<B, 1> for StraightThrough {
    /// True where the gradient is blocked, and the rotation.
    type State = (Option<BoolTensor<B>>, Option<Rotation>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (blocked, rotation) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let grad = match blocked {
                Some(blocked) => B::float_mask_fill(grad, blocked, 0f32.into()),
                None => grad,
            };
            match rotation {
                Some(rotation) => B::rotate(grad, rotation, true),
                None => grad,
            }
        });
    }
}

/// The mask of elements where the estimator blocks the gradient; `None` if nowhere. `x` is the rotated matrix.
fn blocked<B: FakeQuantOps>(
    x: &FloatTensor<B>,
    scales: &FloatTensor<B>,
    params: &CastParams,
) -> Option<BoolTensor<B>> {
    let settings = burn::backend::get_device_settings::<B>(&x.device());
    match params.quant.ste {
        SteChoice::Identity => None,
        SteChoice::Relu => Some(B::float_lower_equal_elem(x.clone(), 0f32.into(), settings.bool_dtype)),
        SteChoice::Clipped => {
            let shape = [x.shape()[0], x.shape()[1]];
            let arranged = params.arrangement.arranged::<B>(x.clone());
            let (whole, groups) = (arranged.shape(), scales.shape()[0]);
            let flat = B::float_reshape(arranged, [groups, whole.num_elements() / groups].into());
            let scale = B::float_slice(scales.clone(), &[(0..groups).into(), (0..1).into()]);
            let scaled = B::float_reshape(B::float_mul(flat, scale), whole);
            let scaled = params.arrangement.restored::<B>(scaled, shape);
            // The scaled amax can exceed the largest value by the rounding error of the scale. That is no saturation.
            let max = params.quant.format.max_finite().next_up().next_up();
            Some(B::float_greater_elem(B::float_abs(scaled), max.into(), settings.bool_dtype))
        }
    }
}

impl<B: CastOps, C: CheckpointStrategy> CastOps for Autodiff<B, C> {
    fn cast(
        x: FloatTensor<Self>,
        params: Arc<CastParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let node = x.node();
        let constant = <Self as burn::backend::AutodiffBackend>::from_inner;
        let prep = <StraightThrough as Backward<B, 1>>::prepare::<C>(StraightThrough, [node])
            .compute_bound()
            .stateful();
        let x = rotated::<B>(x.into_primitive(), &params);
        // A copy keeps the rounding from working in place.
        let source = (params.quant.ste != SteChoice::Identity).then(|| x.clone());
        let (y, scales, words, sums) = cast_rotated::<B>(x, &params);
        let y = match prep {
            OpsKind::Tracked(prep) => {
                let blocked = source.and_then(|x| blocked::<B>(&x, &scales, &params));
                prep.finish((blocked, params.rotation), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        };
        (y, constant(scales), constant(words), constant(sums))
    }

    fn with_values(x: FloatTensor<Self>, values: FloatTensor<Self>) -> FloatTensor<Self> {
        let prep = <StraightThrough as Backward<B, 1>>::prepare::<C>(StraightThrough, [x.node()])
            .compute_bound()
            .stateful();
        match prep {
            OpsKind::Tracked(prep) => prep.finish((None, None), values.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(values.into_primitive()),
        }
    }

    fn rotate(x: FloatTensor<Self>, rotation: Rotation, back: bool) -> FloatTensor<Self> {
        // Used inside of `cast` only, which is on the graph itself.
        <Self as burn::backend::AutodiffBackend>::from_inner(B::rotate(x.into_primitive(), rotation, back))
    }
}
