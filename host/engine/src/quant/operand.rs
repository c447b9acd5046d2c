//! The operands of a linear layer's three matrix products and their multiplication.

use altgrad_casts::LimitedSum;
use burn::tensor::Tensor;

use super::{CastParams, limited::AddendLayout, saved_tensors::Encoding};

/// An operand of a product: its values, the scales of their rounding and an exact encoding.
#[derive(Debug, Clone)]
pub struct Operand {
    /// `[rows, in]`.
    pub values: Tensor<2>,
    /// `[groups, 2]` as in [`FakeQuantOutput`](super::FakeQuantOutput); `None` for values that no format rounded.
    pub scales: Option<Tensor<2>>,
    /// An encoding that is exact for the values.
    pub encoding: Encoding,
    /// The layout of its codes, if a format rounded it and sums of products of codes are not f32. The last row of
    /// scales is the tensor's largest magnitude where sums need it.
    pub codes: Option<AddendLayout>,
    /// The values times their scale as bf16, outside of any graph, if they were made before.
    pub in_bf16: Option<Tensor<2>>,
}

impl Operand {
    /// Values that were not rounded to a format.
    #[must_use]
    pub fn unscaled(values: Tensor<2>, encoding: Encoding) -> Self {
        Self { values, scales: None, encoding, codes: None, in_bf16: None }
    }

    /// True if it can be multiplied as bf16.
    pub(super) fn fits_bf16(&self) -> bool {
        self.scales.as_ref().is_none_or(|scales| scales.dims()[0] == 1) && self.encoding.fits_bf16()
    }
}

/// The rounding of a product's gradient before it is multiplied.
#[derive(Debug, Clone, Default)]
pub enum GradientRounding {
    /// No rounding.
    #[default]
    None,
    /// To bf16.
    Bf16,
    /// By a cast.
    Cast(Box<CastParams>),
}

impl GradientRounding {
    /// The cast, if it is one.
    pub(super) fn cast(&self) -> Option<&CastParams> {
        match self {
            Self::Cast(params) => Some(params),
            Self::None | Self::Bf16 => None,
        }
    }

    /// True if the gradient can be multiplied in bf16.
    pub(super) fn fits_bf16(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bf16 => true,
            Self::Cast(params) => {
                params.quant.scale.is_per_tensor()
                    && params.quant.arithmetic.is_the_formats()
                    && Encoding::Codes(params.quant.format.clone()).fits_bf16()
            }
        }
    }
}

/// The operands of a product's backward pass. The default reuses the operands of the forward pass and rounds no
/// gradient.
#[derive(Debug, Clone, Default)]
pub struct BackwardUses {
    /// The input in the product of the weight's gradient, transposed, `[in, tokens]`. `None`: the first use.
    pub input: Option<Operand>,
    /// The weight in the product of the input's gradient, transposed, `[in, out]`. `None`: the first use.
    pub weight: Option<Operand>,
    /// The gradient in the product of the input's gradient.
    pub gradient: GradientRounding,
    /// The gradient in the product of the weight's gradient: its rounding, transposed, `[out, tokens]`, and whether it
    /// is rounded from the values of its first use. `None`: the first use.
    pub gradient_for_weight: Option<(GradientRounding, bool)>,
}

/// The parameters of a layer's product.
#[derive(Debug, Clone)]
pub struct ProductParams {
    /// The forms in which input and weight are multiplied in the forward pass.
    pub(super) forms: [FactorForm; 2],
    /// The sums of products of codes.
    pub(super) sum: Option<LimitedSum>,
    /// The saved forms of input and weight.
    pub(super) saved: [SavedOperand; 2],
    /// The rounding of the gradient for the product of the input's gradient, and for that of the weight's.
    pub(super) gradient: GradientRounding,
    pub(super) gradient_for_weight: Option<(GradientRounding, bool)>,
    /// The forms in which these are multiplied.
    pub(super) gradient_forms: [FactorForm; 2],
}

/// The form of an operand that the backward pass uses.
#[derive(Debug, Clone)]
pub(super) struct SavedOperand {
    /// True for a second use, which is transposed.
    pub(super) is_second: bool,
    pub(super) encoding: Encoding,
    pub(super) form: FactorForm,
}

/// The form in which a factor is multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a few per product, copied among their owners")]
pub(super) enum FactorForm {
    /// As f32 values.
    F32,
    /// As bf16, without its scale.
    Bf16,
    /// As codes and scales, in sums of limited width.
    Codes(AddendLayout),
}
