//! The matrix product of a linear layer, forward and backward, as an operation of each backend.
//!
//! If the device multiplies bf16 fast, operands that are exact in bf16 up to one scale are multiplied there without the scale
//! and added in f32. The result is divided by both scales. That differs only in the order of rounding (docs/numerics.md, section
//! 4.4).

// A backend extension requires each tensor as a separate argument.
#![allow(clippy::too_many_arguments)]

use std::sync::Arc;

use burn::backend::{
    Autodiff, Backend, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    ops::FloatTensorOps as _,
    tensor::FloatTensor,
};
#[cfg(feature = "gpu")]
use burn::tensor::DType;
use burn::tensor::{FloatDType, Shape};

use super::{
    ScaleSource,
    cast::CastOps,
    fake_quant,
    operand::{GradientRounding, ProductParams},
    saved_tensors,
};
use crate::tensor::{bf16::Bf16Ops, fp32::Fp32Ops, matmul};

/// Products of linear layers, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait ProductOps: CastOps + Bf16Ops + Fp32Ops {
    /// `x w^T`. The gradients of `words` and `sums` are the statistics of rounding the product's gradient for the input's; those of
    /// `second_words` and `second_sums` for the weight's. The gradient of `gradient_probe` is the rounded gradient, flat. `second_x` and
    /// `second_w` are used in the backward pass, where there are such.
    #[fusion(default)]
    fn product(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        x_scales: FloatTensor<Self>,
        w_scales: FloatTensor<Self>,
        second_x: FloatTensor<Self>,
        second_w: FloatTensor<Self>,
        second_x_scales: FloatTensor<Self>,
        second_w_scales: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        second_words: FloatTensor<Self>,
        second_sums: FloatTensor<Self>,
        gradient_probe: FloatTensor<Self>,
        params: Arc<ProductParams>,
    ) -> FloatTensor<Self> {
        let _ = (second_x, second_w, second_x_scales, second_w_scales);
        let _ = (words, sums, second_words, second_sums, gradient_probe);
        let [x_as_bf16, w_as_bf16] = params.as_bf16;
        let (x, w) = (MatrixFactor::new(x, x_scales, x_as_bf16), MatrixFactor::new(w, w_scales, w_as_bf16));
        multiply::<Self>(x, w.transposed())
    }

    /// Values in the layer's encoding number `index`, 0 or 1, if the device can encode them.
    #[fusion(default)]
    fn pack(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, params, index);
        x
    }

    /// The values that [`Self::pack`] encoded, bit-identical.
    #[fusion(default)]
    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, params, index);
        packed
    }

    /// `a b` of f32 tensors.
    #[fusion(default)]
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::fp32_matmul(a, b)
    }

    /// `a b` of bf16 tensors, added in f32: f32.
    #[fusion(meta = matmul_shape)]
    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Shape of a matrix product.
#[cfg(feature = "gpu")]
fn matmul_shape(
    a: &burn::backend::fusion::custom::TensorSpec,
    b: &burn::backend::fusion::custom::TensorSpec,
) -> burn::backend::fusion::custom::TensorSpec {
    burn::backend::fusion::custom::TensorSpec::new(Shape::from([a.shape[0], b.shape[1]]), DType::F32)
}

#[cfg(feature = "gpu")]
impl ProductOps for burn_cubecl::CubeBackend {
    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
        match matmul(a, b, None, MatmulStrategy::default(), DType::F32) {
            Ok(y) => y,
            // As the tensor library does for its own products.
            Err(error) => panic!("a bf16 matrix product cannot be set up: {error:?}"),
        }
    }
}

impl ProductOps for Flex {
    fn pack(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        saved_tensors::pack(x, &scales, &params.saved[index].encoding)
    }

    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        saved_tensors::unpack(packed, &scales, &params.saved[index].encoding)
    }

    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        matmul::matmul(&a, &b)
    }

    /// The same result: products of bf16 values are exact in f32.
    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        <Self as ProductOps>::matmul(
            Self::float_cast(a, FloatDType::F32),
            Self::float_cast(b, FloatDType::F32),
        )
    }
}

/// A factor of a matrix product.
#[derive(Debug, Clone)]
enum MatrixFactor<B: Backend> {
    /// f32 values.
    F32(FloatTensor<B>),
    /// bf16 values, which are the matrix times one scale, and that scale with its inverse, `[1, 2]`.
    Bf16(FloatTensor<B>, FloatTensor<B>),
}

impl<B: ProductOps> MatrixFactor<B> {
    /// From f32 values. With `as_bf16` they must be exact in bf16 after multiplication with the scale.
    fn new(x: FloatTensor<B>, scales: FloatTensor<B>, as_bf16: bool) -> Self {
        if !as_bf16 {
            return Self::F32(x);
        }
        let scaled = B::float_mul(x, column::<B>(&scales, 0));
        Self::Bf16(B::float_cast(scaled, FloatDType::BF16), scales)
    }

    fn transposed(self) -> Self {
        match self {
            Self::F32(matrix) => Self::F32(B::float_swap_dims(matrix, 0, 1)),
            Self::Bf16(matrix, scales) => Self::Bf16(B::float_swap_dims(matrix, 0, 1), scales),
        }
    }

    /// The f32 values.
    fn into_f32(self) -> FloatTensor<B> {
        match self {
            Self::F32(matrix) => matrix,
            Self::Bf16(matrix, scales) => {
                B::float_mul(B::float_cast(matrix, FloatDType::F32), column::<B>(&scales, 1))
            }
        }
    }
}

/// Scales (0) or inverses (1): `[groups, 1]`.
fn column<B: Backend>(scales: &FloatTensor<B>, index: usize) -> FloatTensor<B> {
    B::float_slice(scales.clone(), &[(0..scales.shape()[0]).into(), (index..index + 1).into()])
}

/// `a b`, multiplied as bf16 if both factors are.
fn multiply<B: ProductOps>(a: MatrixFactor<B>, b: MatrixFactor<B>) -> FloatTensor<B> {
    match (a, b) {
        (MatrixFactor::Bf16(a, a_scales), MatrixFactor::Bf16(b, b_scales)) => {
            // One after the other: the product of two inverses may leave f32's range.
            let y = B::float_mul(B::bf16_matmul(a, b), column::<B>(&a_scales, 1));
            B::float_mul(y, column::<B>(&b_scales, 1))
        }
        (a, b) => B::matmul(a.into_f32(), b.into_f32()),
    }
}

/// `dL/dx = g w`, `dL/dw = g^T x`.
#[derive(Debug)]
struct ProductBackward;

impl<B: ProductOps> Backward<B, 7> for ProductBackward {
    /// Saved operands, their scales, the layer's parameters.
    type State = ([FloatTensor<B>; 2], [FloatTensor<B>; 2], Arc<ProductParams>);

    fn backward(self, ops: Ops<Self::State, 7>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ([x, w], [x_scales, w_scales], params) = ops.state;
        let [x_parent, w_parent, words, sums, second_words, second_sums, probe_parent] = ops.parents;
        let whole = grads.consume::<B>(&ops.node);
        // The second use comes first: after its copy, nothing else uses the gradient, which the first use rounds in place.
        let for_weight = |source, rounding| round_gradient::<B>(source, rounding, params.gradient_as_bf16[1]);
        let second = match &params.gradient_for_weight {
            Some((rounding, false)) => Some(for_weight(B::float_swap_dims(whole.clone(), 0, 1), rounding)),
            _ => None,
        };
        let (grad, statistics) = round_gradient::<B>(whole, &params.gradient, params.gradient_as_bf16[0]);
        if let Some(parent) = probe_parent {
            let rounded = grad.clone().into_f32();
            let flat = Shape::from([rounded.shape().num_elements()]);
            grads.register::<B>(parent.id, B::float_reshape(rounded, flat));
        }
        // The saved operand as `[in, tokens]` or `[in, out]` if it is a second use, else as it was.
        let restore = |saved: FloatTensor<B>, scales: FloatTensor<B>, index: usize| {
            if params.saved[index].as_bf16 {
                return MatrixFactor::Bf16(saved, scales);
            }
            MatrixFactor::F32(B::unpack(saved, scales, params.clone(), index))
        };
        let untransposed = |factor: MatrixFactor<B>, index: usize| {
            if params.saved[index].is_second { factor.transposed() } else { factor }
        };
        let (for_weight, second_statistics) = match (second, &params.gradient_for_weight) {
            (Some(second), _) => second,
            (None, Some((rounding, _))) => for_weight(grad.clone().transposed().into_f32(), rounding),
            (None, None) => (grad.clone().transposed(), None),
        };
        if let Some(parent) = x_parent {
            let w = untransposed(restore(w, w_scales, 1), 1);
            grads.register::<B>(parent.id, multiply::<B>(grad, w));
        }
        if let Some(parent) = w_parent {
            let x = untransposed(restore(x, x_scales, 0), 0);
            grads.register::<B>(parent.id, multiply::<B>(for_weight, x));
        }
        let leaves =
            [[words, sums], [second_words, second_sums]].into_iter().zip([statistics, second_statistics]);
        for (parents, values) in leaves {
            for (parent, values) in parents.into_iter().zip(values.into_iter().flatten()) {
                if let Some(parent) = parent {
                    grads.register::<B>(parent.id, values);
                }
            }
        }
    }
}

/// The gradient as it is rounded, and the statistics of the rounding.
fn round_gradient<B: ProductOps>(
    grad: FloatTensor<B>,
    rounding: &GradientRounding,
    as_bf16: bool,
) -> (MatrixFactor<B>, Option<[FloatTensor<B>; 2]>) {
    match rounding {
        GradientRounding::None => (MatrixFactor::F32(grad), None),
        GradientRounding::Bf16 if as_bf16 => {
            let one = fake_quant::scales::<B>(&grad, ScaleSource::ONE);
            (MatrixFactor::new(grad, one, as_bf16), None)
        }
        GradientRounding::Bf16 => (MatrixFactor::F32(B::round_to_bf16(grad)), None),
        GradientRounding::Cast(params) => {
            let (grad, scales, words, sums) = B::cast(grad, Arc::new((**params).clone()));
            (MatrixFactor::new(grad, scales, as_bf16), Some([words, sums]))
        }
    }
}

impl<B: ProductOps, C: CheckpointStrategy> ProductOps for Autodiff<B, C> {
    fn product(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        x_scales: FloatTensor<Self>,
        w_scales: FloatTensor<Self>,
        second_x: FloatTensor<Self>,
        second_w: FloatTensor<Self>,
        second_x_scales: FloatTensor<Self>,
        second_w_scales: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        second_words: FloatTensor<Self>,
        second_sums: FloatTensor<Self>,
        gradient_probe: FloatTensor<Self>,
        params: Arc<ProductParams>,
    ) -> FloatTensor<Self> {
        let leaves = [&words, &sums, &second_words, &second_sums, &gradient_probe].map(|leaf| leaf.node());
        let [words, sums, second_words, second_sums, probe] = leaves;
        let nodes = [x.node(), w.node(), words, sums, second_words, second_sums, probe];
        let [x, w, x_scales, w_scales] = [x, w, x_scales, w_scales].map(|tensor| tensor.into_primitive());
        let second = [(second_x, second_x_scales), (second_w, second_w_scales)]
            .map(|(values, scales)| (values.into_primitive(), scales.into_primitive()));
        let prep = <ProductBackward as Backward<B, 7>>::prepare::<C>(ProductBackward, nodes);
        let x = MatrixFactor::<B>::new(x, x_scales.clone(), params.as_bf16[0]);
        let w = MatrixFactor::<B>::new(w, w_scales.clone(), params.as_bf16[1]);
        let y = multiply::<B>(x.clone(), w.clone().transposed());
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let save = |first: (MatrixFactor<B>, FloatTensor<B>), second, index: usize| {
                    let saved = &params.saved[index];
                    let (factor, scales) = if saved.is_second {
                        let (values, scales): (FloatTensor<B>, FloatTensor<B>) = second;
                        (MatrixFactor::new(values, scales.clone(), saved.as_bf16), scales)
                    } else {
                        first
                    };
                    match factor {
                        MatrixFactor::F32(matrix) => {
                            (B::pack(matrix, scales.clone(), params.clone(), index), scales)
                        }
                        MatrixFactor::Bf16(matrix, _) => (matrix, scales),
                    }
                };
                let [second_x, second_w] = second;
                let (x, x_scales) = save((x, x_scales), second_x, 0);
                let (w, w_scales) = save((w, w_scales), second_w, 1);
                prep.finish(([x, w], [x_scales, w_scales], params), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        // Used inside of `product` only, which is on the graph itself.
        <Self as burn::backend::AutodiffBackend>::from_inner(B::bf16_matmul(
            a.into_primitive(),
            b.into_primitive(),
        ))
    }
}
