//! The matrix product of a linear layer as one differentiable operation.
//!
//! Its backward pass rounds the gradient once and multiplies it with both operands, which it kept in their smallest
//! exact form (see [`super::keep`]). How products are computed is in [`super::multiply`].

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, Gradients as Tape, Tensor};

use super::{Call, Unread, keep::Form, multiply::ProductOps};
use crate::model::params;

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

/// What happens to the gradient of a product before it is multiplied.
#[derive(Debug, Clone)]
pub enum Rounding {
    /// Nothing.
    None,
    /// Rounded to bf16.
    Bf16,
    /// Rounded to a format, rows filled up by some columns of zeros first.
    Format(Call, usize),
}

/// How a layer multiplies.
#[derive(Debug, Clone)]
pub struct Layer {
    /// What the input and the weight are exact in.
    pub(super) forms: [Form; 2],
    pub(super) gradient: Rounding,
    /// Whether input, weight and gradient are multiplied as bf16.
    pub(super) narrow: [bool; 3],
}

/// Where the statistics of a gradient's rounding will be: gradients are all that a backward pass hands out, so they come
/// as those of two tensors that take part in nothing else.
#[derive(Debug)]
pub struct Probe {
    call: Call,
    elements: u64,
    words: Tensor<1>,
    sums: Tensor<1>,
}

impl Probe {
    /// The statistics, once the backward pass is done; `None` if no gradient came by.
    #[must_use]
    pub fn read(&self, tape: &Tape) -> Option<Unread> {
        let (words, sums) = (self.words.grad(tape)?, self.sums.grad(tape)?);
        Some(Unread { format: self.call.format.clone(), elements: self.elements, words, sums })
    }
}

/// `x w^T`, and where to find what rounding its gradient saw. `fast_bf16`: whether the device multiplies bf16 fast;
/// `shown`: a leaf whose gradient becomes the rounded gradient, flat.
/// Shapes: `x` `[tokens, in]`, `w` `[out, in]`, result `[tokens, out]`.
#[must_use]
pub fn product(
    x: Operand,
    w: Operand,
    gradient: Rounding,
    fast_bf16: bool,
    shown: Option<Tensor<1>>,
) -> (Tensor<2>, Option<Probe>) {
    let device = x.values.device();
    let rounds = match &gradient {
        Rounding::Format(call, _) if device.is_autodiff() => Some(call.clone()),
        _ => None,
    };
    let narrow = |one_scale: bool, form: &Form| fast_bf16 && one_scale && form.fits_bf16();
    let narrow = [
        narrow(x.scales.dims()[0] == 1, &x.form),
        narrow(w.scales.dims()[0] == 1, &w.form),
        match &gradient {
            Rounding::None => false,
            Rounding::Bf16 => fast_bf16,
            Rounding::Format(call, _) => narrow(call.scale.is_one(), &Form::Codes(call.format.clone())),
        },
    ];
    let elements = (x.values.dims()[0] * w.values.dims()[0]) as u64;
    let probe = || if rounds.is_some() { zero(&device).require_grad() } else { zero(&device) };
    let (words, sums) = (probe(), probe());
    let y = <Dispatch as ProductOps>::product(
        x.values.into_dispatch(),
        w.values.into_dispatch(),
        x.scales.into_dispatch(),
        w.scales.into_dispatch(),
        words.clone().into_dispatch(),
        sums.clone().into_dispatch(),
        shown.unwrap_or_else(|| zero(&device)).into_dispatch(),
        Arc::new(Layer { forms: [x.form, w.form], gradient, narrow }),
    );
    (Tensor::from_dispatch(y), rounds.map(|call| Probe { call, elements, words, sums }))
}

fn zero(device: &Device) -> Tensor<1> {
    params::flat(vec![0.0], device)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::ComputeDevice;

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
}
