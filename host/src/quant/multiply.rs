//! How products are computed, forward and backward, on each device.
//!
//! Where the device multiplies bf16 fast, operands that are exact in bf16 up to one scale are multiplied there without
//! it, added in f32, and the result is divided by both scales: the same numbers but for the order of rounding (NUMERICS
//! section 3).

// A backend extension takes each tensor as an argument of its own.
#![allow(clippy::too_many_arguments)]

use std::sync::Arc;

use burn::backend::{
    Autodiff, Backend, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    ops::FloatTensorOps as _,
    tensor::FloatTensor,
};
#[cfg(feature = "gpu")]
use burn::tensor::DType;
use burn::tensor::{FloatDType, Shape};

use super::{
    keep,
    op::{self, FormatOps, elements, flex},
    product::{Layer, Rounding},
};
use crate::fused;

/// The operations, as burn's backends see them.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait ProductOps: FormatOps {
    /// `x w^T`; the gradients of `words` and `sums` are what rounding the product's gradient saw, that of `shown` is the
    /// rounded gradient, flat.
    #[fusion(default)]
    fn product(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        x_scales: FloatTensor<Self>,
        w_scales: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        shown: FloatTensor<Self>,
        layer: Arc<Layer>,
    ) -> FloatTensor<Self> {
        let _ = (words, sums, shown);
        let [x_narrow, w_narrow, _] = layer.narrow;
        let (x, w) = (Factor::new(x, x_scales, x_narrow), Factor::new(w, w_scales, w_narrow));
        multiply::<Self>(x, w.transposed())
    }

    /// Values to be kept, in the first or second of the layer's forms if the device can do it.
    #[fusion(default)]
    fn pack(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        layer: Arc<Layer>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, layer, index);
        x
    }

    /// What [`Self::pack`] was given, bit for bit.
    #[fusion(default)]
    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        layer: Arc<Layer>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, layer, index);
        packed
    }

    /// `a b` of f32 tensors.
    #[fusion(default)]
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(a, b)
    }

    /// `a b` of bf16 tensors, added in f32: f32.
    #[fusion(meta = matmul_shape)]
    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Rounding to bf16, in f32.
    #[fusion(default)]
    fn bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_cast(Self::float_cast(x, FloatDType::BF16), FloatDType::F32)
    }

    /// The identity; with gradients, theirs is rounded.
    #[fusion(default)]
    fn bf16_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }
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
        layer: Arc<Layer>,
        index: usize,
    ) -> FloatTensor<Self> {
        keep::pack(x, &scales, &layer.forms[index])
    }

    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        layer: Arc<Layer>,
        index: usize,
    ) -> FloatTensor<Self> {
        keep::unpack(packed, &scales, &layer.forms[index])
    }

    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        fused::matmul::matmul(&a, &b)
    }

    /// The same numbers: products of bf16 values are exact in f32.
    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        <Self as ProductOps>::matmul(
            Self::float_cast(a, FloatDType::F32),
            Self::float_cast(b, FloatDType::F32),
        )
    }

    fn bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (shape, x) = (x.shape(), x.to_contiguous());
        flex(elements(&x).iter().copied().map(keep::to_bf16).collect(), shape)
    }
}

/// A matrix to be multiplied.
#[derive(Debug, Clone)]
enum Factor<B: Backend> {
    /// f32 values.
    Wide(FloatTensor<B>),
    /// bf16 values, which are the matrix's times one scale, and that scale with its inverse, `[1, 2]`.
    Narrow(FloatTensor<B>, FloatTensor<B>),
}

impl<B: ProductOps> Factor<B> {
    /// From f32 values; `narrow` ones are exact in bf16 times the scale.
    fn new(x: FloatTensor<B>, scales: FloatTensor<B>, narrow: bool) -> Self {
        if !narrow {
            return Self::Wide(x);
        }
        let scaled = B::float_mul(x, column::<B>(&scales, 0));
        Self::Narrow(B::float_cast(scaled, FloatDType::BF16), scales)
    }

    fn transposed(self) -> Self {
        match self {
            Self::Wide(matrix) => Self::Wide(B::float_swap_dims(matrix, 0, 1)),
            Self::Narrow(matrix, scales) => Self::Narrow(B::float_swap_dims(matrix, 0, 1), scales),
        }
    }

    /// The f32 values.
    fn wide(self) -> FloatTensor<B> {
        match self {
            Self::Wide(matrix) => matrix,
            Self::Narrow(matrix, scales) => {
                B::float_mul(B::float_cast(matrix, FloatDType::F32), column::<B>(&scales, 1))
            }
        }
    }
}

/// Scales or inverses: `[groups, 1]`.
fn column<B: Backend>(scales: &FloatTensor<B>, index: usize) -> FloatTensor<B> {
    B::float_slice(scales.clone(), &[(0..scales.shape()[0]).into(), (index..index + 1).into()])
}

/// `a b`, as bf16 if both are narrow.
fn multiply<B: ProductOps>(a: Factor<B>, b: Factor<B>) -> FloatTensor<B> {
    match (a, b) {
        (Factor::Narrow(a, a_scales), Factor::Narrow(b, b_scales)) => {
            // One after the other: the product of two inverses may leave f32's range.
            let y = B::float_mul(B::bf16_matmul(a, b), column::<B>(&a_scales, 1));
            B::float_mul(y, column::<B>(&b_scales, 1))
        }
        (a, b) => B::matmul(a.wide(), b.wide()),
    }
}

/// `dL/dx = g w`, `dL/dw = g^T x`.
#[derive(Debug)]
struct ProductBackward;

impl<B: ProductOps> Backward<B, 5> for ProductBackward {
    /// Kept operands, their scales, the layer.
    type State = ([FloatTensor<B>; 2], [FloatTensor<B>; 2], Arc<Layer>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ([x, w], [x_scales, w_scales], layer) = ops.state;
        let [x_parent, w_parent, words_parent, sums_parent, shown_parent] = ops.parents;
        let (grad, statistics) = round_gradient::<B>(grads.consume::<B>(&ops.node), &layer);
        if let Some(parent) = shown_parent {
            let rounded = grad.clone().wide();
            let flat = Shape::from([rounded.shape().num_elements()]);
            grads.register::<B>(parent.id, B::float_reshape(rounded, flat));
        }
        let kept = |kept: FloatTensor<B>, scales: FloatTensor<B>, index: usize| {
            if layer.narrow[index] {
                return Factor::Narrow(kept, scales);
            }
            Factor::Wide(B::unpack(kept, scales, layer.clone(), index))
        };
        if let Some(parent) = x_parent {
            grads.register::<B>(parent.id, multiply::<B>(grad.clone(), kept(w, w_scales, 1)));
        }
        if let Some(parent) = w_parent {
            grads.register::<B>(parent.id, multiply::<B>(grad.transposed(), kept(x, x_scales, 0)));
        }
        for (parent, values) in [words_parent, sums_parent].into_iter().zip(statistics.into_iter().flatten())
        {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, values);
            }
        }
    }
}

/// The gradient as the layer rounds it, and what rounding saw.
fn round_gradient<B: ProductOps>(
    grad: FloatTensor<B>,
    layer: &Layer,
) -> (Factor<B>, Option<[FloatTensor<B>; 2]>) {
    let narrow = layer.narrow[2];
    match &layer.gradient {
        Rounding::None => (Factor::Wide(grad), None),
        Rounding::Bf16 if narrow => {
            let one = op::scales::<B>(&grad, super::ScaleSource::ONE);
            (Factor::new(grad, one, narrow), None)
        }
        Rounding::Bf16 => (Factor::Wide(B::bf16(grad)), None),
        Rounding::Format(call, padding) => {
            let [rows, columns] = [grad.shape()[0], grad.shape()[1]];
            let grad = if *padding == 0 {
                grad
            } else {
                let shape = Shape::from([rows, *padding]);
                let zeros = B::float_zeros(shape, &grad.device(), FloatDType::F32);
                B::float_cat(vec![grad, zeros], 1)
            };
            let scales = op::scales::<B>(&grad, call.scale);
            let (grad, words, sums) = B::fake_quant(grad, scales.clone(), Arc::new(call.clone()));
            let grad = if *padding == 0 {
                grad
            } else {
                B::float_slice(grad, &[(0..rows).into(), (0..columns).into()])
            };
            (Factor::new(grad, scales, narrow), Some([words, sums]))
        }
    }
}

/// The gradient, rounded to bf16 or as it is.
#[derive(Debug)]
struct PassGradient {
    rounded: bool,
}

impl<B: ProductOps> Backward<B, 1> for PassGradient {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| if self.rounded { B::bf16(grad) } else { grad });
    }
}

/// `y` of `x`, on the graph with this backward pass.
fn pass<B: ProductOps, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    rounded: bool,
    y: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let node = x.node();
    let y = y(x.into_primitive());
    let backward = PassGradient { rounded };
    match <PassGradient as Backward<B, 1>>::prepare::<C>(backward, [node]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((), y),
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}

impl<B: ProductOps, C: CheckpointStrategy> ProductOps for Autodiff<B, C> {
    fn product(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        x_scales: FloatTensor<Self>,
        w_scales: FloatTensor<Self>,
        words: FloatTensor<Self>,
        sums: FloatTensor<Self>,
        shown: FloatTensor<Self>,
        layer: Arc<Layer>,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), w.node(), words.node(), sums.node(), shown.node()];
        let [x, w, x_scales, w_scales] = [x, w, x_scales, w_scales].map(|tensor| tensor.into_primitive());
        let prep = <ProductBackward as Backward<B, 5>>::prepare::<C>(ProductBackward, nodes);
        let x = Factor::<B>::new(x, x_scales.clone(), layer.narrow[0]);
        let w = Factor::<B>::new(w, w_scales.clone(), layer.narrow[1]);
        let y = multiply::<B>(x.clone(), w.clone().transposed());
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let keep = |factor: Factor<B>, scales: &FloatTensor<B>, index: usize| match factor {
                    Factor::Wide(matrix) => B::pack(matrix, scales.clone(), layer.clone(), index),
                    Factor::Narrow(matrix, _) => matrix,
                };
                let kept = [keep(x, &x_scales, 0), keep(w, &w_scales, 1)];
                prep.finish((kept, [x_scales, w_scales], layer), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        // Used inside of `product` only, below the graph.
        <Self as burn::backend::AutodiffBackend>::from_inner(B::bf16_matmul(
            a.into_primitive(),
            b.into_primitive(),
        ))
    }

    fn bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass::<B, C>(x, false, B::bf16)
    }

    fn bf16_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass::<B, C>(x, true, |x| x)
    }
}
