//! The tensors of a product on a backend: operands, second uses, and leaves for what the backward pass returns.

use burn::backend::{Backend, ExtensionType, tensor::FloatTensor};

/// An operand of a product on a backend.
#[derive(Debug, Clone, ExtensionType)]
pub enum OperandTensors<B: Backend> {
    /// Values that no format rounded: the scale is 1.
    Plain(FloatTensor<B>),
    /// Values, and the scales of their rounding with inverses, `[groups, 2]`.
    Scaled(FloatTensor<B>, FloatTensor<B>),
    /// [`Self::Plain`], and the values as bf16.
    PlainBf16(FloatTensor<B>, FloatTensor<B>),
    /// [`Self::Scaled`], and the values times their scale as bf16.
    ScaledBf16(FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
}

/// The second use of an operand.
#[derive(Debug, ExtensionType)]
pub enum SecondUse<B: Backend> {
    /// It reuses the first.
    Reuse,
    /// It has an operand of its own.
    Own(#[extension_type] OperandTensors<B>),
}

/// A leaf of the autodiff graph whose gradient is a result of the backward pass, if it is wanted.
#[derive(Debug, ExtensionType)]
pub enum Leaf<B: Backend> {
    /// Not wanted.
    Unused,
    /// The leaf, `[1]`.
    Wanted(FloatTensor<B>),
}

/// The results of a product's backward pass besides the gradients of its operands.
#[derive(Debug, ExtensionType)]
pub struct Leaves<B: Backend> {
    /// Words of the statistics of rounding the gradient for the product of the input's gradient.
    #[extension_type]
    pub words: Leaf<B>,
    /// Sums of the same.
    #[extension_type]
    pub sums: Leaf<B>,
    /// Words of the statistics of rounding the gradient for the product of the weight's gradient.
    #[extension_type]
    pub second_words: Leaf<B>,
    /// Sums of the same.
    #[extension_type]
    pub second_sums: Leaf<B>,
    /// The first rounded gradient, flat.
    #[extension_type]
    pub rounded_gradient: Leaf<B>,
}

impl<B: Backend> OperandTensors<B> {
    /// Values, scales, and the values times their scale as bf16.
    pub(super) fn new(
        values: FloatTensor<B>,
        scales: Option<FloatTensor<B>>,
        in_bf16: Option<FloatTensor<B>>,
    ) -> Self {
        match (scales, in_bf16) {
            (None, None) => Self::Plain(values),
            (Some(scales), None) => Self::Scaled(values, scales),
            (None, Some(in_bf16)) => Self::PlainBf16(values, in_bf16),
            (Some(scales), Some(in_bf16)) => Self::ScaledBf16(values, scales, in_bf16),
        }
    }

    /// Values and scales.
    pub(super) fn split(self) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
        let (values, scales, _) = self.into_parts();
        (values, scales)
    }

    /// What [`Self::new`] is made of.
    pub(super) fn into_parts(self) -> (FloatTensor<B>, Option<FloatTensor<B>>, Option<FloatTensor<B>>) {
        match self {
            Self::Plain(values) => (values, None, None),
            Self::Scaled(values, scales) => (values, Some(scales), None),
            Self::PlainBf16(values, in_bf16) => (values, None, Some(in_bf16)),
            Self::ScaledBf16(values, scales, in_bf16) => (values, Some(scales), Some(in_bf16)),
        }
    }

    pub(super) fn values(&self) -> &FloatTensor<B> {
        let (Self::Plain(values)
        | Self::Scaled(values, _)
        | Self::PlainBf16(values, _)
        | Self::ScaledBf16(values, _, _)) = self;
        values
    }
}
