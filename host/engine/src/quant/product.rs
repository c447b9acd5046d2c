//! The matrix product of a linear layer as one differentiable operation.
//!
//! Its backward pass multiplies the gradient, rounded once or for each of its two products, with the saved forms of both operands:
//! their first uses or second ones, in their smallest exact encoding (see [`super::saved_tensors`]). [`super::product_ops`]
//! computes the products.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, Gradients as Tape, Tensor};

use super::{
    DeviceFormat, PendingStats,
    operand::{BackwardUses, GradientRounding, Operand, ProductParams, SavedOperand},
    product_ops::ProductOps,
    saved_tensors::Encoding,
};
use crate::tensor;

/// The future statistics of rounding a gradient. A backward pass returns gradients only, so the statistics become the
/// gradients of two leaves that no other operation uses.
#[derive(Debug)]
pub struct GradientStats {
    format: Arc<DeviceFormat>,
    elements: u64,
    words: Tensor<1>,
    sums: Tensor<1>,
}

impl GradientStats {
    /// The rounding of a gradient of `elements` elements to a format.
    pub(super) fn new(format: Arc<DeviceFormat>, elements: u64, device: &Device) -> Self {
        let leaf = || zero(device).require_grad();
        Self { format, elements, words: leaf(), sums: leaf() }
    }

    /// The two leaves.
    pub(super) fn leaves(&self) -> (Tensor<1>, Tensor<1>) {
        (self.words.clone(), self.sums.clone())
    }

    /// The statistics after the backward pass; `None` if the product had no gradient.
    #[must_use]
    pub fn read(&self, tape: &Tape) -> Option<PendingStats> {
        let (words, sums) = (self.words.grad(tape)?, self.sums.grad(tape)?);
        Some(PendingStats { format: self.format.clone(), elements: self.elements, words, sums })
    }
}

/// `x w^T`, and the future statistics of rounding its gradient for the product of the input's gradient, and for that of the weight's.
/// `fast_bf16`: whether the device multiplies bf16 fast. `gradient_probe`: a leaf whose gradient becomes the first rounded gradient, flat.
/// Shapes: `x` `[tokens, in]`, `w` `[out, in]`, result `[tokens, out]`.
#[must_use]
pub fn product(
    x: Operand,
    w: Operand,
    backward: BackwardUses,
    fast_bf16: bool,
    gradient_probe: Option<Tensor<1>>,
) -> (Tensor<2>, [Option<GradientStats>; 2]) {
    let device = x.values.device();
    let elements = (x.values.dims()[0] * w.values.dims()[0]) as u64;
    let BackwardUses { input, weight, gradient, gradient_for_weight } = backward;
    let second_rounding = gradient_for_weight.as_ref().map(|(rounding, _)| rounding);
    let as_bf16 = |fits: bool| fast_bf16 && fits;
    let saved = |first: &Operand, second: Option<&Operand>| {
        let used = second.unwrap_or(first);
        SavedOperand {
            is_second: second.is_some(),
            encoding: used.encoding.clone(),
            as_bf16: as_bf16(used.fits_bf16()),
        }
    };
    let params = ProductParams {
        as_bf16: [as_bf16(x.fits_bf16()), as_bf16(w.fits_bf16())],
        saved: [saved(&x, input.as_ref()), saved(&w, weight.as_ref())],
        gradient_as_bf16: [
            as_bf16(gradient.fits_bf16()),
            as_bf16(second_rounding.unwrap_or(&gradient).fits_bf16()),
        ],
        gradient: gradient.clone(),
        gradient_for_weight: gradient_for_weight.clone(),
    };
    let stats = |rounding: Option<&GradientRounding>| {
        let params = rounding?.cast().filter(|_| device.is_autodiff())?;
        Some(GradientStats::new(params.quant.format.clone(), elements, &device))
    };
    let stats = [stats(Some(&gradient)), stats(second_rounding)];
    let leaf = |stats: &Option<GradientStats>, of: fn(&GradientStats) -> &Tensor<1>| {
        stats.as_ref().map_or_else(|| zero(&device), |stats| of(stats).clone()).into_dispatch()
    };
    let operand = |operand: Option<Operand>| {
        let operand =
            operand.unwrap_or_else(|| Operand::unscaled(zero(&device).reshape([1, 1]), Encoding::F32));
        (operand.values.into_dispatch(), operand.scales.into_dispatch())
    };
    let ((x, x_scales), (w, w_scales)) = (operand(Some(x)), operand(Some(w)));
    let ((x2, x2_scales), (w2, w2_scales)) = (operand(input), operand(weight));
    let y = <Dispatch as ProductOps>::product(
        x,
        w,
        x_scales,
        w_scales,
        x2,
        w2,
        x2_scales,
        w2_scales,
        leaf(&stats[0], |stats| &stats.words),
        leaf(&stats[0], |stats| &stats.sums),
        leaf(&stats[1], |stats| &stats.words),
        leaf(&stats[1], |stats| &stats.sums),
        gradient_probe.unwrap_or_else(|| zero(&device)).into_dispatch(),
        Arc::new(params),
    );
    (Tensor::from_dispatch(y), stats)
}

fn zero(device: &Device) -> Tensor<1> {
    tensor::flat(vec![0.0], device)
}
