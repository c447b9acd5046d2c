//! The matrix product of a linear layer as one differentiable operation.
//!
//! Its backward pass rounds the gradient once and multiplies it with both operands, which were saved in their smallest exact
//! encoding (see [`super::saved_tensors`]). [`super::product_ops`] computes the products.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, Gradients as Tape, Tensor};

use super::{
    FakeQuantParams, PendingStats,
    operand::{GradientRounding, Operand, ProductParams},
    product_ops::ProductOps,
    saved_tensors::Encoding,
};
use crate::tensor;

/// The future statistics of rounding a gradient. A backward pass returns gradients only, so the statistics become the
/// gradients of two leaves that no other operation uses.
#[derive(Debug)]
pub struct GradientStats {
    params: FakeQuantParams,
    elements: u64,
    words: Tensor<1>,
    sums: Tensor<1>,
}

impl GradientStats {
    /// The statistics after the backward pass; `None` if the product had no gradient.
    #[must_use]
    pub fn read(&self, tape: &Tape) -> Option<PendingStats> {
        let (words, sums) = (self.words.grad(tape)?, self.sums.grad(tape)?);
        Some(PendingStats { format: self.params.format.clone(), elements: self.elements, words, sums })
    }
}

/// `x w^T`, and the future statistics of rounding its gradient. `fast_bf16`: whether the device multiplies bf16 fast.
/// `gradient_probe`: a leaf whose gradient becomes the rounded gradient, flat.
/// Shapes: `x` `[tokens, in]`, `w` `[out, in]`, result `[tokens, out]`.
#[must_use]
pub fn product(
    x: Operand,
    w: Operand,
    gradient: GradientRounding,
    fast_bf16: bool,
    gradient_probe: Option<Tensor<1>>,
) -> (Tensor<2>, Option<GradientStats>) {
    let device = x.values.device();
    let rounds = match &gradient {
        GradientRounding::Format(params, _) if device.is_autodiff() => Some(params.clone()),
        _ => None,
    };
    let fits = |one_scale: bool, encoding: &Encoding| fast_bf16 && one_scale && encoding.fits_bf16();
    let as_bf16 = [
        fits(x.scales.dims()[0] == 1, &x.encoding),
        fits(w.scales.dims()[0] == 1, &w.encoding),
        match &gradient {
            GradientRounding::None => false,
            GradientRounding::Bf16 => fast_bf16,
            GradientRounding::Format(params, _) => {
                fits(params.scale.is_per_tensor(), &Encoding::Codes(params.format.clone()))
            }
        },
    ];
    let elements = (x.values.dims()[0] * w.values.dims()[0]) as u64;
    let leaf = || if rounds.is_some() { zero(&device).require_grad() } else { zero(&device) };
    let (words, sums) = (leaf(), leaf());
    let y = <Dispatch as ProductOps>::product(
        x.values.into_dispatch(),
        w.values.into_dispatch(),
        x.scales.into_dispatch(),
        w.scales.into_dispatch(),
        words.clone().into_dispatch(),
        sums.clone().into_dispatch(),
        gradient_probe.unwrap_or_else(|| zero(&device)).into_dispatch(),
        Arc::new(ProductParams { encodings: [x.encoding, w.encoding], gradient, as_bf16 }),
    );
    (Tensor::from_dispatch(y), rounds.map(|params| GradientStats { params, elements, words, sums }))
}

fn zero(device: &Device) -> Tensor<1> {
    tensor::flat(vec![0.0], device)
}
