//! The matrix product of a linear layer as one differentiable operation that keeps little for its backward pass.
//!
//! The backward pass needs both operands. They are kept in their smallest exact form: values on a format's grid as its
//! codes, values rounded to bf16 in 16 bits, others as they are, which for a parameter costs nothing. Codes are made
//! on the CPU; other devices keep f32.

use std::sync::Arc;

use altgrad_plugin_api::QuantParams;
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{DType, FloatDType, Tensor};
use rayon::prelude::*;

use super::{
    DeviceFormat,
    op::{elements, flex, pairs},
};

/// Elements a thread takes at once.
const PART: usize = 1 << 16;
/// Scales outside of 1/this to this could bring values among f32's subnormals, where codes are not exact.
const EXTREME: f32 = (1u64 << 40) as f32;

/// What an operand's values are exact in.
#[derive(Debug, Clone)]
pub enum Form {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// The format's codes, with scales.
    Codes(Arc<DeviceFormat>),
}

/// An operand of a product: values, the scales they were rounded with, and what they are exact in.
#[derive(Debug)]
pub struct Operand {
    /// `[rows, in]`.
    pub values: Tensor<2>,
    /// `[groups, 2]` as in [`super::op::Rounded`]; read only for codes.
    pub scales: Tensor<2>,
    /// The form.
    pub form: Form,
}

impl Operand {
    /// Values that were not rounded to a format.
    #[must_use]
    pub fn plain(values: Tensor<2>, form: Form) -> Self {
        let scales = Tensor::from_data([[1f32, 1.0]], &values.device());
        Self { values, scales, form }
    }
}

/// `x w^T`. Shapes: `x` `[tokens, in]`, `w` `[out, in]`, result `[tokens, out]`.
#[must_use]
pub fn product(x: Operand, w: Operand) -> Tensor<2> {
    let forms = Arc::new([x.form, w.form]);
    Tensor::from_dispatch(<Dispatch as ProductOps>::product(
        x.values.into_dispatch(),
        w.values.into_dispatch(),
        x.scales.into_dispatch(),
        w.scales.into_dispatch(),
        forms,
    ))
}

/// `x` rounded to bf16, ties to even; the gradient passes as it is.
#[must_use]
pub fn bf16<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as ProductOps>::bf16(x.into_dispatch()))
}

/// `x` itself, whose gradient is rounded to bf16.
#[must_use]
pub fn bf16_gradient<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as ProductOps>::bf16_gradient(x.into_dispatch()))
}

/// The operations, as burn's backends see them.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait ProductOps: Backend {
    /// `x w^T`; `forms` are `x`'s and `w`'s.
    #[fusion(default)]
    fn product(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        x_scales: FloatTensor<Self>,
        w_scales: FloatTensor<Self>,
        forms: Arc<[Form; 2]>,
    ) -> FloatTensor<Self> {
        let _ = (x_scales, w_scales, forms);
        Self::float_matmul(x, Self::float_swap_dims(w, 0, 1))
    }

    /// Values to be kept, in the first or second of the forms if the device can do it.
    #[fusion(default)]
    fn pack(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        forms: Arc<[Form; 2]>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, forms, index);
        x
    }

    /// What [`Self::pack`] was given, bit for bit.
    #[fusion(default)]
    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        forms: Arc<[Form; 2]>,
        index: usize,
    ) -> FloatTensor<Self> {
        let _ = (scales, forms, index);
        packed
    }

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

#[cfg(feature = "gpu")]
impl ProductOps for burn_cubecl::CubeBackend {}

impl ProductOps for Flex {
    fn pack(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        forms: Arc<[Form; 2]>,
        index: usize,
    ) -> FloatTensor<Self> {
        match &forms[index] {
            Form::F32 => x,
            Form::Bf16 => {
                let (shape, x) = (x.shape(), x.to_contiguous());
                flex(elements(&x).iter().map(|x| (x.to_bits() >> 16) as u16).collect(), shape)
            }
            Form::Codes(format) => {
                let (shape, x, scales) = (x.shape(), x.to_contiguous(), scales.to_contiguous());
                let scales = pairs(elements(&scales));
                // Without a code for each value they stay as they are.
                if format.decoded().len() > 256 {
                    codes(format, elements(&x), scales, |code| code).map_or(x, |codes| flex(codes, shape))
                } else {
                    codes(format, elements(&x), scales, |code| code as u8)
                        .map_or(x, |codes| flex(codes, shape))
                }
            }
        }
    }

    fn unpack(
        packed: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        forms: Arc<[Form; 2]>,
        index: usize,
    ) -> FloatTensor<Self> {
        let (shape, scales) = (packed.shape(), scales.to_contiguous());
        let scales = pairs(elements(&scales));
        let Form::Codes(format) = &forms[index] else {
            let wide =
                |bits: &[u16]| bits.iter().map(|&bits| f32::from_bits(u32::from(bits) << 16)).collect();
            return packed.as_slice::<u16>().map(wide).map_or(packed, |values| flex(values, shape));
        };
        let values = match packed.dtype() {
            DType::U8 => packed.as_slice::<u8>().map(|codes| values(format, codes, scales)),
            DType::U16 => packed.as_slice::<u16>().map(|codes| values(format, codes, scales)),
            _ => None,
        };
        values.map_or(packed, |values| flex(values, shape))
    }

    fn bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (shape, x) = (x.shape(), x.to_contiguous());
        flex(elements(&x).iter().copied().map(to_bf16).collect(), shape)
    }
}

/// The nearest bf16 value, ties to even; NaN stays NaN.
fn to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    f32::from_bits(if x.is_nan() { bits | 0x0040_0000 } else { rounded } & 0xffff_0000)
}

/// The codes of values on the grid; `None` if a value has none or may be inexact.
fn codes<T: Copy + Default + Send>(
    format: &DeviceFormat,
    x: &[f32],
    scales: &[[f32; 2]],
    narrow: impl Fn(u16) -> T + Sync,
) -> Option<Vec<T>> {
    if scales.iter().any(|[scale, _]| !(1.0 / EXTREME..=EXTREME).contains(scale)) {
        return None;
    }
    let group = (x.len() / scales.len()).max(1);
    let mut codes = vec![T::default(); x.len()];
    let parts = codes.par_chunks_mut(PART).zip(x.par_chunks(PART)).enumerate();
    let done = parts.map(|(part, (codes, x))| {
        let mut scaled = x.to_vec();
        for_groups(part * PART, &mut scaled, group, |group, x| {
            let [scale, _] = scales[group];
            x.iter_mut().for_each(|x| *x *= scale);
        });
        let wide = format.plugin().encode(&scaled, &QuantParams::IDENTITY).ok()?;
        codes.iter_mut().zip(wide).for_each(|(code, wide)| *code = narrow(wide));
        Some(())
    });
    done.collect::<Option<()>>().map(|()| codes)
}

/// The values of codes.
fn values<T: Copy + Into<u16> + Sync>(format: &DeviceFormat, codes: &[T], scales: &[[f32; 2]]) -> Vec<f32> {
    let (table, group) = (format.decoded(), (codes.len() / scales.len()).max(1));
    let mut values = vec![0.0; codes.len()];
    values.par_chunks_mut(PART).zip(codes.par_chunks(PART)).enumerate().for_each(
        |(part, (values, codes))| {
            values.iter_mut().zip(codes).for_each(|(value, &code)| *value = table[usize::from(code.into())]);
            for_groups(part * PART, values, group, |group, values| {
                let [_, inverse] = scales[group];
                values.iter_mut().for_each(|value| *value *= inverse);
            });
        },
    );
    values
}

/// Calls `each` with the number and the elements of every group of `group` consecutive elements, cut at the ends of
/// `part`, which begins at element `first`.
fn for_groups(first: usize, part: &mut [f32], group: usize, each: impl Fn(usize, &mut [f32])) {
    let (mut rest, mut first) = (part, first);
    while !rest.is_empty() {
        let len = (group - first % group).min(rest.len());
        let (here, behind) = rest.split_at_mut(len);
        each(first / group, here);
        (rest, first) = (behind, first + len);
    }
}

/// `dL/dx = g w`, `dL/dw = g^T x`.
#[derive(Debug)]
struct ProductBackward;

impl<B: ProductOps> Backward<B, 2> for ProductBackward {
    /// Packed operands, their scales, their forms.
    type State = ([FloatTensor<B>; 2], [FloatTensor<B>; 2], Arc<[Form; 2]>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let ([x, w], [x_scales, w_scales], forms) = ops.state;
        let [x_parent, w_parent] = ops.parents;
        let grad = grads.consume::<B>(&ops.node);
        if let Some(parent) = x_parent {
            let w = B::unpack(w, w_scales, forms.clone(), 1);
            grads.register::<B>(parent.id, B::float_matmul(grad.clone(), w));
        }
        if let Some(parent) = w_parent {
            let x = B::unpack(x, x_scales, forms, 0);
            grads.register::<B>(parent.id, B::float_matmul(B::float_swap_dims(grad, 0, 1), x));
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

/// `y` on the graph after `x`, with this backward pass.
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
        forms: Arc<[Form; 2]>,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), w.node()];
        let [x, w, x_scales, w_scales] = [x, w, x_scales, w_scales].map(|tensor| tensor.into_primitive());
        let y = B::product(x.clone(), w.clone(), x_scales.clone(), w_scales.clone(), forms.clone());
        match <ProductBackward as Backward<B, 2>>::prepare::<C>(ProductBackward, nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let x = B::pack(x, x_scales.clone(), forms.clone(), 0);
                let w = B::pack(w, w_scales.clone(), forms.clone(), 1);
                prep.finish(([x, w], [x_scales, w_scales], forms), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass::<B, C>(x, false, B::bf16)
    }

    fn bf16_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass::<B, C>(x, true, |x| x)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, model::params};

    #[test]
    fn bf16_rounds_to_nearest_even() {
        let cases = [
            (1.0, 1.0),
            (-0.0, -0.0),
            // One and half a step of 2^-7: to even; and a little more: up.
            (1.0 + 2f32.powi(-8), 1.0),
            (1.0 + 3.0 * 2f32.powi(-8), 1.0 + 2f32.powi(-6)),
            (1.0 + 2f32.powi(-8) + 2f32.powi(-20), 1.0 + 2f32.powi(-7)),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (f32::from_bits(0x0001_8000), f32::from_bits(0x0002_0000)),
        ];
        for (x, expected) in cases {
            assert_eq!(to_bf16(x).to_bits(), expected.to_bits(), "{x}");
        }
        assert!(to_bf16(f32::NAN).is_nan() && to_bf16(f32::from_bits(0x7f80_0001)).is_nan());
    }

    #[test]
    fn gradients_are_rounded_where_asked() {
        let device = ComputeDevice::cpu().tensors;
        let (x, rough) = (1.0 + 2f32.powi(-10), 3.0 + 2f32.powi(-9));
        let gradient = |op: fn(Tensor<1>) -> Tensor<1>| {
            let leaf = Tensor::from_inner(params::flat(vec![x], &device)).require_grad();
            let y = op(leaf.clone());
            let value = params::read_f32(y.clone().inner()).unwrap()[0];
            let tape = y.mul_scalar(rough).backward();
            (value, params::read_f32(leaf.grad(&tape).unwrap()).unwrap()[0])
        };
        assert_eq!(gradient(bf16), (1.0, rough));
        assert_eq!(gradient(bf16_gradient), (x, 3.0));
    }

    #[test]
    fn groups_are_cut_at_the_ends() {
        let mut part = [0.0; 7];
        for_groups(4, &mut part, 3, |group, x| x.fill(group as f32));
        assert_eq!(part, [1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
    }
}
