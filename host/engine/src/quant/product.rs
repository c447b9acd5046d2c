//! The matrix product of a linear layer as one differentiable operation.
//!
//! Its backward pass multiplies the gradient, rounded once or for each of its two products, with the saved forms of
//! both operands: their first uses or second ones, in their smallest exact encoding (see [`super::saved_tensors`]).
//! [`super::product_ops`] computes the products.

use std::sync::Arc;

use altgrad_casts::LimitedSum;
use burn::backend::Dispatch;
use burn::tensor::{Gradients as Tape, Tensor};

use super::{
    CountedBy, DeviceFormat, FakeQuantParams, PendingStats,
    limited::AddendLayout,
    operand::{BackwardUses, FactorForm, GradientRounding, Operand, ProductParams, SavedOperand},
    product_ops::ProductOps,
    product_tensors::{Leaf, Leaves, OperandTensors, SecondUse},
};
/// The future statistics of rounding a gradient. A backward pass returns gradients only, so the statistics become the
/// gradients of two leaves that no other operation uses.
#[derive(Debug)]
pub struct GradientStats {
    format: Arc<DeviceFormat>,
    counted_by: CountedBy,
    elements: u64,
    words: Tensor<1>,
    sums: Tensor<1>,
}

impl GradientStats {
    /// The rounding of a gradient of `elements` elements; `zero` is the value of the leaves.
    pub(super) fn new(quant: &FakeQuantParams, elements: u64, zero: &Tensor<1>) -> Self {
        let leaf = || Tensor::from_inner(zero.clone()).require_grad();
        let (format, counted_by) = (quant.format.clone(), quant.counted_by());
        Self { format, counted_by, elements, words: leaf(), sums: leaf() }
    }

    /// The two leaves.
    pub(super) fn leaves(&self) -> (Tensor<1>, Tensor<1>) {
        (self.words.clone(), self.sums.clone())
    }

    /// The statistics after the backward pass; `None` if the product had no gradient.
    #[must_use]
    pub fn read(&self, tape: &Tape) -> Option<PendingStats> {
        let (words, sums) = (self.words.grad(tape)?, self.sums.grad(tape)?);
        Some(PendingStats {
            format: self.format.clone(),
            counted_by: self.counted_by,
            elements: self.elements,
            words,
            sums,
        })
    }
}

/// `x w^T`, and the future statistics of rounding its gradient for the product of the input's gradient, and for that of
/// the weight's. `fast_bf16`: whether the device multiplies bf16 fast. `sum`: the sums of products both of whose
/// operands are codes, if they are not f32. `probe`: a leaf whose gradient becomes the first rounded gradient, flat;
/// `zero`: the value of other leaves. Shapes: `x` `[tokens, in]`, `w` `[out, in]`, result `[tokens, out]`.
#[must_use]
pub fn product(
    x: Operand,
    w: Operand,
    backward: BackwardUses,
    (fast_bf16, sum): (bool, Option<LimitedSum>),
    (probe, zero): (Option<Tensor<1>>, &Tensor<1>),
) -> (Tensor<2>, [Option<GradientStats>; 2]) {
    let is_tracked = x.values.device().is_autodiff();
    let elements = (x.values.dims()[0] * w.values.dims()[0]) as u64;
    let BackwardUses { input, weight, gradient, gradient_for_weight } = backward;
    let second_rounding = gradient_for_weight.as_ref().map(|(rounding, _)| rounding);
    let form = |fits_bf16: bool, codes: Option<AddendLayout>| match (codes, fast_bf16 && fits_bf16) {
        (Some(codes), _) => FactorForm::Codes(codes),
        (None, true) => FactorForm::Bf16,
        (None, false) => FactorForm::F32,
    };
    let of_gradient = |rounding: &GradientRounding| {
        let codes = rounding.cast().zip(sum.as_ref()).map(|(cast, sum)| AddendLayout::of_cast(cast, sum));
        form(rounding.fits_bf16(), codes)
    };
    let saved = |first: &Operand, second: Option<&Operand>| {
        let used = second.unwrap_or(first);
        SavedOperand {
            is_second: second.is_some(),
            encoding: used.encoding.clone(),
            form: form(used.fits_bf16(), used.codes),
        }
    };
    let params = ProductParams {
        forms: [&x, &w].map(|operand| form(operand.fits_bf16(), operand.codes)),
        sum,
        saved: [saved(&x, input.as_ref()), saved(&w, weight.as_ref())],
        gradient_forms: [&gradient, second_rounding.unwrap_or(&gradient)].map(of_gradient),
        gradient: gradient.clone(),
        gradient_for_weight: gradient_for_weight.clone(),
    };
    let stats = |rounding: Option<&GradientRounding>| {
        let params = rounding?.cast().filter(|_| is_tracked)?;
        Some(GradientStats::new(&params.quant, elements, zero))
    };
    let stats = [stats(Some(&gradient)), stats(second_rounding)];
    let leaf = |leaf: Option<&Tensor<1>>| match leaf {
        Some(leaf) => Leaf::Wanted(leaf.clone().into_dispatch()),
        None => Leaf::Unused,
    };
    let [first, second] = &stats;
    let leaves = Leaves {
        words: leaf(first.as_ref().map(|stats| &stats.words)),
        sums: leaf(first.as_ref().map(|stats| &stats.sums)),
        second_words: leaf(second.as_ref().map(|stats| &stats.words)),
        second_sums: leaf(second.as_ref().map(|stats| &stats.sums)),
        rounded_gradient: leaf(probe.as_ref()),
    };
    let second_use = |operand: Option<Operand>| {
        operand.map_or(SecondUse::Reuse, |operand| SecondUse::Own(operand.into_tensors()))
    };
    let y = <Dispatch as ProductOps>::product(
        x.into_tensors(),
        w.into_tensors(),
        second_use(input),
        second_use(weight),
        leaves,
        Arc::new(params),
    );
    (Tensor::from_dispatch(y), stats)
}

impl Operand {
    fn into_tensors(self) -> OperandTensors<Dispatch> {
        let values = self.values.into_dispatch();
        let in_bf16 = self.in_bf16.map(Tensor::into_dispatch);
        OperandTensors::new(values, self.scales.map(Tensor::into_dispatch), in_bf16)
    }
}
