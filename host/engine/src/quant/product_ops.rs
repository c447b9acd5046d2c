//! The matrix product of a linear layer, forward and backward, as an operation of each backend.
//!
//! If the device multiplies bf16 fast, operands that are exact in bf16 up to one scale are multiplied there without the
//! scale and added in f32. The result is divided by both scales. That differs only in the order of rounding
//! (docs/numerics.md, section 4.4).

use std::sync::Arc;

use altgrad_casts::LimitedSum;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Flex, TensorMetadata,
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

#[cfg(feature = "gpu")]
use super::product_kernel;
use super::{
    cast::CastOps,
    limited::{self, AddendLayout, with_amax},
    operand::{FactorForm, GradientRounding, ProductParams},
    product_tensors::{Leaf, Leaves, OperandTensors, SecondUse},
    saved_tensors,
};
#[cfg(feature = "gpu")]
use crate::tensor::product_strategy;
use crate::tensor::{bf16::Bf16Ops, fp32::Fp32Ops, matmul};

/// Products of linear layers, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait ProductOps: CastOps + Bf16Ops + Fp32Ops {
    /// `x w^T`. The backward pass uses the second uses, and gives the leaves their gradients.
    #[fusion(default)]
    fn product(
        #[extension_type] x: OperandTensors<Self>,
        #[extension_type] w: OperandTensors<Self>,
        #[extension_type] second_x: SecondUse<Self>,
        #[extension_type] second_w: SecondUse<Self>,
        #[extension_type] leaves: Leaves<Self>,
        params: Arc<ProductParams>,
    ) -> FloatTensor<Self> {
        let _ = (second_x, second_w, leaves);
        let [x_form, w_form] = params.forms;
        let w = MatrixFactor::new(w, w_form).transposed();
        multiply::<Self>(MatrixFactor::new(x, x_form), w, params.sum)
    }

    /// Values in the layer's encoding number `index`, 0 or 1, if the device can encode them.
    #[fusion(default)]
    fn pack(
        #[extension_type] x: OperandTensors<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (params, index);
        x.split().0
    }

    /// The values that [`Self::pack`] encoded, bit-identical.
    #[fusion(default)]
    fn unpack(
        #[extension_type] packed: OperandTensors<Self>,
        params: Arc<ProductParams>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (params, index);
        packed.split().0
    }

    /// `a b` of codes, each with its scales `[groups, 2]`, in sums of limited width. The setup refuses them on other
    /// devices than the CPU.
    #[fusion(default)]
    fn limited_matmul(
        #[extension_type] a: OperandTensors<Self>,
        #[extension_type] b: OperandTensors<Self>,
        layouts: [AddendLayout; 2],
        sum: LimitedSum,
    ) -> FloatTensor<Self> {
        let _ = (a, b, layouts);
        unreachable!("{sum:?} on a device other than the CPU")
    }

    /// `a b` of f32 tensors.
    #[fusion(default)]
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::fp32_matmul(a, b)
    }

    /// `x` times a scale, `[1, 2]`, in bf16.
    #[fusion(meta = in_bf16)]
    fn scaled_to_bf16(x: FloatTensor<Self>, scale: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_cast(times::<Self>(x, Some(&scale), 0), FloatDType::BF16)
    }

    /// `x` times the inverses of two scales, `[1, 2]` each, one after the other: their product may leave f32's range.
    #[fusion(meta = |x, _, _| x.clone())]
    fn unscaled(
        x: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        times::<Self>(times::<Self>(x, Some(&first), 1), Some(&second), 1)
    }

    /// [`Self::unscaled`] of two tensors.
    #[fusion(meta = |x, _, _, y, _, _| (x.clone(), y.clone()))]
    fn both_unscaled(
        x: FloatTensor<Self>,
        first_of_x: FloatTensor<Self>,
        second_of_x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        first_of_y: FloatTensor<Self>,
        second_of_y: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        (Self::unscaled(x, first_of_x, second_of_x), Self::unscaled(y, first_of_y, second_of_y))
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

/// Shape of [`ProductOps::scaled_to_bf16`]'s result.
#[cfg(feature = "gpu")]
fn in_bf16(
    x: &burn::backend::fusion::custom::TensorSpec,
    _: &burn::backend::fusion::custom::TensorSpec,
) -> burn::backend::fusion::custom::TensorSpec {
    burn::backend::fusion::custom::TensorSpec::new(x.shape.clone(), DType::BF16)
}

#[cfg(feature = "gpu")]
impl ProductOps for burn_cubecl::CubeBackend {
    fn scaled_to_bf16(x: FloatTensor<Self>, scale: FloatTensor<Self>) -> FloatTensor<Self> {
        product_kernel::scaled(x, scale, DType::BF16)
    }

    fn unscaled(
        x: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let [x] = product_kernel::unscaled([(x, [first, second])]);
        x
    }

    fn both_unscaled(
        x: FloatTensor<Self>,
        first_of_x: FloatTensor<Self>,
        second_of_x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        first_of_y: FloatTensor<Self>,
        second_of_y: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let products = [(x, [first_of_x, second_of_x]), (y, [first_of_y, second_of_y])];
        let [x, y] = product_kernel::unscaled(products);
        (x, y)
    }

    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        product_strategy::matmul(a, b)
    }
}

impl ProductOps for Flex {
    fn pack(x: OperandTensors<Self>, params: Arc<ProductParams>, index: usize) -> FloatTensor<Self> {
        let (values, scales) = x.split();
        saved_tensors::pack(values, scales.as_ref(), &params.saved[index].encoding)
    }

    fn unpack(packed: OperandTensors<Self>, params: Arc<ProductParams>, index: usize) -> FloatTensor<Self> {
        let (packed, scales) = packed.split();
        saved_tensors::unpack(packed, scales.as_ref(), &params.saved[index].encoding)
    }

    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        matmul::matmul(&a, &b)
    }

    fn limited_matmul(
        a: OperandTensors<Self>,
        b: OperandTensors<Self>,
        [a_layout, b_layout]: [AddendLayout; 2],
        sum: LimitedSum,
    ) -> FloatTensor<Self> {
        limited::matmul((a.split(), a_layout), (b.split(), b_layout.transposed()), &sum)
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
#[expect(clippy::large_enum_variant, reason = "two per product")]
enum MatrixFactor<B: Backend> {
    /// f32 values.
    F32(FloatTensor<B>),
    /// bf16 values, which are the matrix times one scale, and that scale with its inverse, `[1, 2]`, if it is not 1.
    Bf16(FloatTensor<B>, Option<FloatTensor<B>>),
    /// f32 values of codes in the order of their cast, and their scales.
    Codes(OperandTensors<B>, AddendLayout),
}

impl<B: ProductOps> MatrixFactor<B> {
    /// From f32 values. As bf16 they must be exact in it after multiplication with the scale.
    fn new(x: OperandTensors<B>, form: FactorForm) -> Self {
        match form {
            FactorForm::F32 => Self::F32(x.split().0),
            FactorForm::Bf16 => {
                let (x, scales, in_bf16) = x.into_parts();
                let rounded = match (&scales, in_bf16) {
                    (_, Some(in_bf16)) => in_bf16,
                    (Some(scale), None) => B::scaled_to_bf16(x, scale.clone()),
                    (None, None) => B::float_cast(x, FloatDType::BF16),
                };
                Self::Bf16(rounded, scales)
            }
            FactorForm::Codes(layout) => Self::Codes(x, layout),
        }
    }

    fn transposed(self) -> Self {
        match self {
            Self::F32(matrix) => Self::F32(B::float_swap_dims(matrix, 0, 1)),
            Self::Bf16(matrix, scales) => Self::Bf16(B::float_swap_dims(matrix, 0, 1), scales),
            Self::Codes(values, layout) => Self::Codes(values, layout.transposed()),
        }
    }

    /// The f32 values.
    fn into_f32(self) -> FloatTensor<B> {
        match self {
            Self::F32(matrix) => matrix,
            Self::Bf16(matrix, scales) => {
                times::<B>(B::float_cast(matrix, FloatDType::F32), scales.as_ref(), 1)
            }
            Self::Codes(values, layout) if layout.is_transposed => B::float_swap_dims(values.split().0, 0, 1),
            Self::Codes(values, _) => values.split().0,
        }
    }
}

/// A matrix times the scale (0) or the inverse (1), if there is one.
fn times<B: Backend>(x: FloatTensor<B>, scales: Option<&FloatTensor<B>>, index: usize) -> FloatTensor<B> {
    let Some(scales) = scales else { return x };
    let column = B::float_slice(scales.clone(), &[(0..scales.shape()[0]).into(), (index..index + 1).into()]);
    B::float_mul(x, column)
}

/// A product before it is multiplied by the inverses of the scales of its factors, as far as these have any.
struct ScaledProduct<B: Backend> {
    y: FloatTensor<B>,
    scales: [Option<FloatTensor<B>>; 2],
}

impl<B: ProductOps> ScaledProduct<B> {
    /// `a b`, multiplied as bf16 if both factors are, and as codes in such sums if both are.
    fn of(a: MatrixFactor<B>, b: MatrixFactor<B>, sum: Option<LimitedSum>) -> Self {
        let (y, scales) = match (a, b, sum) {
            (MatrixFactor::Codes(a, a_layout), MatrixFactor::Codes(b, b_layout), Some(sum)) => {
                (B::limited_matmul(a, b, [a_layout, b_layout], sum), [None, None])
            }
            (MatrixFactor::Bf16(a, a_scales), MatrixFactor::Bf16(b, b_scales), _) => {
                (B::bf16_matmul(a, b), [a_scales, b_scales])
            }
            (a, b, _) => (B::matmul(a.into_f32(), b.into_f32()), [None, None]),
        };
        Self { y, scales }
    }

    /// The product.
    fn unscaled(self) -> FloatTensor<B> {
        match self.scales {
            [Some(first), Some(second)] => B::unscaled(self.y, first, second),
            [first, second] => times::<B>(self.y, first.or(second).as_ref(), 1),
        }
    }

    /// Two products.
    fn both_unscaled(self, other: Self) -> [FloatTensor<B>; 2] {
        match (self, other) {
            (
                Self { y: x, scales: [Some(first_of_x), Some(second_of_x)] },
                Self { y, scales: [Some(first_of_y), Some(second_of_y)] },
            ) => B::both_unscaled(x, first_of_x, second_of_x, y, first_of_y, second_of_y).into(),
            (x, y) => [x.unscaled(), y.unscaled()],
        }
    }
}

/// `a b`, as [`ScaledProduct::of`] multiplies.
fn multiply<B: ProductOps>(
    a: MatrixFactor<B>,
    b: MatrixFactor<B>,
    sum: Option<LimitedSum>,
) -> FloatTensor<B> {
    ScaledProduct::of(a, b, sum).unscaled()
}

/// `dL/dx = g w`, `dL/dw = g^T x`.
#[derive(Debug)]
struct ProductBackward;

impl<B: ProductOps> Backward<B, 7> for ProductBackward {
    /// Saved operands and the layer's parameters.
    type State = ([OperandTensors<B>; 2], Arc<ProductParams>);

    fn backward(self, ops: Ops<Self::State, 7>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ([x, w], params) = ops.state;
        let [x_parent, w_parent, words, sums, second_words, second_sums, probe_parent] = ops.parents;
        let whole = grads.consume::<B>(&ops.node);
        // The second use comes first: after its copy, nothing else uses the gradient, which the first use rounds in
        // place.
        let for_weight = |source, rounding| round_gradient::<B>(source, rounding, params.gradient_forms[1]);
        let second = match &params.gradient_for_weight {
            Some((rounding, false)) => Some(for_weight(B::float_swap_dims(whole.clone(), 0, 1), rounding)),
            _ => None,
        };
        let (grad, statistics) = round_gradient::<B>(whole, &params.gradient, params.gradient_forms[0]);
        if let Some(parent) = probe_parent {
            let rounded = grad.clone().into_f32();
            let flat = Shape::from([rounded.shape().num_elements()]);
            grads.register::<B>(parent.id, B::float_reshape(rounded, flat));
        }
        // The saved operand as `[in, tokens]` or `[in, out]` if it is a second use, else as it was.
        let restore = |saved: OperandTensors<B>, index: usize| {
            let form = params.saved[index].form;
            if form == FactorForm::Bf16 {
                let (saved, scales) = saved.split();
                return MatrixFactor::Bf16(saved, scales);
            }
            let (_, scales) = saved.clone().split();
            let values = B::unpack(saved, params.clone(), index);
            MatrixFactor::new(OperandTensors::new(values, scales, None), form)
        };
        let untransposed = |factor: MatrixFactor<B>, index: usize| {
            if params.saved[index].is_second { factor.transposed() } else { factor }
        };
        let (for_weight, second_statistics) = match (second, &params.gradient_for_weight) {
            (Some(second), _) => second,
            (None, Some((rounding, _))) => for_weight(grad.clone().transposed().into_f32(), rounding),
            (None, None) => (grad.clone().transposed(), None),
        };
        let of_x = x_parent
            .map(|parent| (parent.id, ScaledProduct::of(grad, untransposed(restore(w, 1), 1), params.sum)));
        let of_w = w_parent.map(|parent| {
            (parent.id, ScaledProduct::of(for_weight, untransposed(restore(x, 0), 0), params.sum))
        });
        match (of_x, of_w) {
            (Some((x, of_x)), Some((w, of_w))) => {
                let [of_x, of_w] = of_x.both_unscaled(of_w);
                grads.register::<B>(x, of_x);
                grads.register::<B>(w, of_w);
            }
            (of_x, of_w) => {
                for (id, product) in of_x.into_iter().chain(of_w) {
                    grads.register::<B>(id, product.unscaled());
                }
            }
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
    form: FactorForm,
) -> (MatrixFactor<B>, Option<[FloatTensor<B>; 2]>) {
    match rounding {
        GradientRounding::None => (MatrixFactor::F32(grad), None),
        GradientRounding::Bf16 if form == FactorForm::Bf16 => {
            (MatrixFactor::new(OperandTensors::Plain(grad), form), None)
        }
        GradientRounding::Bf16 => (MatrixFactor::F32(B::round_to_bf16(grad)), None),
        GradientRounding::Cast(params) => {
            let (grad, scales, words, sums) = B::cast(grad, Arc::new((**params).clone()));
            let scales = match form {
                FactorForm::Codes(codes) if codes.needs_amax() => with_amax::<B>(scales, words.clone()),
                _ => scales,
            };
            (MatrixFactor::new(OperandTensors::Scaled(grad, scales), form), Some([words, sums]))
        }
    }
}

/// The tensors of an operand outside of the graph.
fn primitive<B: Backend, C: CheckpointStrategy>(
    operand: OperandTensors<Autodiff<B, C>>,
) -> OperandTensors<B> {
    let (values, scales, in_bf16) = operand.into_parts();
    let inner = |x: FloatTensor<Autodiff<B, C>>| x.into_primitive();
    OperandTensors::new(inner(values), scales.map(inner), in_bf16.map(inner))
}

impl<B: ProductOps, C: CheckpointStrategy> ProductOps for Autodiff<B, C> {
    fn product(
        x: OperandTensors<Self>,
        w: OperandTensors<Self>,
        second_x: SecondUse<Self>,
        second_w: SecondUse<Self>,
        leaves: Leaves<Self>,
        params: Arc<ProductParams>,
    ) -> FloatTensor<Self> {
        let (x_node, w_node) = (x.values().node(), w.values().node());
        let (x, w) = (primitive(x), primitive(w));
        // A node without gradient, for leaves that are not wanted.
        let unused = <Self as AutodiffBackend>::from_inner(w.values().clone());
        let Leaves { words, sums, second_words, second_sums, rounded_gradient } = leaves;
        let leaves = [words, sums, second_words, second_sums, rounded_gradient].map(|leaf| match leaf {
            Leaf::Wanted(leaf) => leaf.node(),
            Leaf::Unused => unused.node(),
        });
        let [words, sums, second_words, second_sums, probe] = leaves;
        let nodes = [x_node, w_node, words, sums, second_words, second_sums, probe];
        drop(unused);
        let prep = <ProductBackward as Backward<B, 7>>::prepare::<C>(ProductBackward, nodes);
        let scales = [&x, &w].map(|operand| operand.clone().split().1);
        let x = MatrixFactor::<B>::new(x, params.forms[0]);
        let w = MatrixFactor::<B>::new(w, params.forms[1]);
        let y = multiply::<B>(x.clone(), w.clone().transposed(), params.sum);
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let save = |first: (MatrixFactor<B>, Option<FloatTensor<B>>),
                            second: SecondUse<Self>,
                            index: usize| {
                    let (factor, scales) = match second {
                        SecondUse::Reuse => first,
                        SecondUse::Own(own) => {
                            let own = primitive(own);
                            let (_, scales) = own.clone().split();
                            (MatrixFactor::new(own, params.saved[index].form), scales)
                        }
                    };
                    let packed = |matrix, scales: Option<FloatTensor<B>>| {
                        let operand = OperandTensors::new(matrix, scales.clone(), None);
                        OperandTensors::new(B::pack(operand, params.clone(), index), scales, None)
                    };
                    match factor {
                        MatrixFactor::Bf16(matrix, scales) => OperandTensors::new(matrix, scales, None),
                        // As they are in memory.
                        MatrixFactor::F32(matrix) => packed(matrix, scales),
                        MatrixFactor::Codes(operand, _) => packed(operand.split().0, scales),
                    }
                };
                let [x_scales, w_scales] = scales;
                let saved = [save((x, x_scales), second_x, 0), save((w, w_scales), second_w, 1)];
                prep.finish((saved, params), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn bf16_matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        // Used inside of `product` only, which is on the graph itself.
        <Self as AutodiffBackend>::from_inner(B::bf16_matmul(a.into_primitive(), b.into_primitive()))
    }
}
