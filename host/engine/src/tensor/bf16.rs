//! Rounding to bf16 as a differentiable operation, and matrix products of operands rounded that way.

use altgrad_casts::nearest_bf16;
use altgrad_config::PrecisionChoice;
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::{FloatDType, Tensor};
use multiversion::multiversion;
use rayon::prelude::*;

use super::{
    contiguous,
    cpu::{into_unique, zeros},
    fp32,
};

/// Elements of a parallel task.
const CHUNK: usize = 1 << 16;

/// [`nearest_bf16`] of each element.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(crate) fn round_slice(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = nearest_bf16(*x));
}

/// The bits of [`nearest_bf16`] of each element.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn narrow_slice(x: &[f32], bits: &mut [u16]) {
    bits.iter_mut().zip(x).for_each(|(bits, x)| *bits = (nearest_bf16(*x).to_bits() >> 16) as u16);
}

/// The bits of the nearest bf16 values.
pub(crate) fn narrow(x: &[f32]) -> Vec<u16> {
    let mut bits = vec![0; x.len()];
    let parts = bits.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK));
    parts.for_each(|(bits, x)| narrow_slice(x, bits));
    bits
}

/// The values of bf16 bits.
pub(crate) fn widen(bits: &[u16]) -> Vec<f32> {
    let mut x = zeros(bits.len());
    let parts = x.par_chunks_mut(CHUNK).zip(bits.par_chunks(CHUNK));
    parts.for_each(|(x, bits)| {
        x.iter_mut().zip(bits).for_each(|(x, bits)| *x = f32::from_bits(u32::from(*bits) << 16));
    });
    x
}

/// Rounding to bf16, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait Bf16Ops: Backend {
    /// Values rounded to bf16, stored as f32. The gradient passes unchanged.
    #[fusion(default)]
    fn round_to_bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_cast(Self::float_cast(x, FloatDType::BF16), FloatDType::F32)
    }

    /// The identity, whose gradient is rounded to bf16.
    #[fusion(default)]
    fn round_gradient_to_bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }
}

#[cfg(feature = "gpu")]
impl Bf16Ops for burn_cubecl::CubeBackend {}

impl Bf16Ops for Flex {
    fn round_to_bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let mut x = into_unique(contiguous(x));
        x.storage_mut::<f32>().par_chunks_mut(CHUNK).for_each(round_slice);
        x
    }
}

/// Passes the gradient on, rounded to bf16 or unchanged.
#[derive(Debug)]
struct PassGradient {
    rounded: bool,
}

impl<B: Bf16Ops> Backward<B, 1> for PassGradient {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                if self.rounded { B::round_to_bf16(grad) } else { grad }
            },
        );
    }
}

/// Registers `y(x)` on the graph with [`PassGradient`] as its backward pass.
fn pass_gradient<B: Bf16Ops, C: CheckpointStrategy>(
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

impl<B: Bf16Ops, C: CheckpointStrategy> Bf16Ops for Autodiff<B, C> {
    fn round_to_bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass_gradient::<B, C>(x, false, B::round_to_bf16)
    }

    fn round_gradient_to_bf16(x: FloatTensor<Self>) -> FloatTensor<Self> {
        pass_gradient::<B, C>(x, true, |x| x)
    }
}

/// `x` rounded to bf16, ties to even. The gradient passes unchanged.
#[must_use]
pub fn round_to_bf16<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as Bf16Ops>::round_to_bf16(x.into_dispatch()))
}

/// `x` itself, whose gradient is rounded to bf16.
#[must_use]
pub fn round_gradient_to_bf16<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as Bf16Ops>::round_gradient_to_bf16(x.into_dispatch()))
}

/// `a b` at a precision: with [`PrecisionChoice::Bf16`] both operands and the gradient of the product are rounded to
/// bf16.
#[must_use]
pub fn matmul(a: Tensor<4>, b: Tensor<4>, precision: PrecisionChoice) -> Tensor<4> {
    match precision {
        PrecisionChoice::Fp32 => fp32::matmul(a, b),
        PrecisionChoice::Bf16 => round_gradient_to_bf16(fp32::matmul(round_to_bf16(a), round_to_bf16(b))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        device::ComputeDevice,
        tensor::{flat, read_f32},
    };

    #[test]
    fn only_the_operation_that_says_so_rounds_the_gradient() {
        let device = ComputeDevice::cpu().tensors;
        let (x, rough) = (1.0 + 2f32.powi(-10), 3.0 + 2f32.powi(-9));
        let gradient = |op: fn(Tensor<1>) -> Tensor<1>| {
            let leaf = Tensor::from_inner(flat(vec![x], &device)).require_grad();
            let y = op(leaf.clone());
            let value = read_f32(y.clone().inner()).unwrap()[0];
            let tape = y.mul_scalar(rough).backward();
            (value, read_f32(leaf.grad(&tape).unwrap()).unwrap()[0])
        };
        assert_eq!(gradient(round_to_bf16), (1.0, rough));
        assert_eq!(gradient(round_gradient_to_bf16), (x, 3.0));
    }
}
