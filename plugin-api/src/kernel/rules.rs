//! The rules of the project's own update kernels, shared by the generator of their texts (`plugins/kernel-kit`) and the
//! optimizers (`plugins/optimizer-kit`). Nothing here crosses the boundary; other plugins have variants of their own.

use crate::KernelOp;

/// The update of an element. Every rule keeps Adam's two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpdateRule {
    /// AdamW: `keep * w - step`.
    Plain,
    /// `keep * w - S * step`.
    Steps,
    /// AdamW on `S * g`.
    Gradients,
    /// `keep * w - (S / mean S)^p * step`; the mean is prepared by a launch of its own.
    Power,
    /// Along the codes.
    Exp,
    /// Codes times the spacing at the start.
    Linear,
    /// Along the asinh chart.
    SmoothExp,
    /// Codes times the chart's spacing at the start.
    SmoothLinear,
}

impl UpdateRule {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Steps,
        Self::Gradients,
        Self::Power,
        Self::Exp,
        Self::Linear,
        Self::SmoothExp,
        Self::SmoothLinear,
    ];

    /// The operation of its text.
    #[must_use]
    pub const fn op(self) -> KernelOp {
        KernelOp::OPTIMIZER_STEP.with_variant(self as u8)
    }
}
