//! The operands of a linear layer's matrix product and how they are multiplied.

use burn::tensor::Tensor;

use super::{FakeQuantParams, saved_tensors::Encoding};

/// An operand of a product: its values, the scales of their rounding and an exact encoding.
#[derive(Debug)]
pub struct Operand {
    /// `[rows, in]`.
    pub values: Tensor<2>,
    /// `[groups, 2]` as in [`FakeQuantOutput`](super::FakeQuantOutput); read only for codes.
    pub scales: Tensor<2>,
    /// An encoding that is exact for the values.
    pub encoding: Encoding,
}

impl Operand {
    /// Values that were not rounded to a format.
    #[must_use]
    pub fn unscaled(values: Tensor<2>, encoding: Encoding) -> Self {
        let scales = Tensor::from_data([[1f32, 1.0]], &values.device());
        Self { values, scales, encoding }
    }
}

/// How the gradient of a product is rounded before it is multiplied.
#[derive(Debug, Clone)]
pub enum GradientRounding {
    /// Not at all.
    None,
    /// To bf16.
    Bf16,
    /// To a format, after padding rows with a number of columns of zeros.
    Format(FakeQuantParams, usize),
}

/// How a layer multiplies.
#[derive(Debug, Clone)]
pub struct ProductParams {
    /// Exact encodings of the input and the weight.
    pub(super) encodings: [Encoding; 2],
    pub(super) gradient: GradientRounding,
    /// Whether input, weight and gradient are multiplied as bf16.
    pub(super) as_bf16: [bool; 3],
}
