//! The names of the families, and their order.

/// The families, in the order in which a run announces their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Loss, gradient norm, learning rate.
    Training,
    /// Numbers of the optimizer's own.
    Optimizer,
    /// Entropy, scores and spectra of attention.
    Attention,
    /// Gradients compared with unquantized ones.
    Fidelity,
    /// Curvature of the loss.
    Curvature,
    /// Effect of rounding on the tensors of a step.
    Rounding,
    /// Effect that formats would have on tensors.
    Observation,
    /// Values and codes that an update changed.
    Updates,
    /// Distances of updates.
    UpdateDistances,
    /// Ends of grids that updates reach.
    GridEnds,
    /// Scales of weights without master weights.
    ScaleChanges,
    /// Elements without a gradient for many steps.
    DeadGradients,
    /// Weights compared with the grid.
    Weights,
    /// SQNR at other scales.
    ScaleRegret,
    /// Distances from the initial weights.
    UlpFromInit,
    /// Ranks of matrices.
    Ranks,
    /// Gradients by parameter.
    Gradients,
    /// Use of codes.
    Codes,
    /// Times and rates.
    Speed,
    /// The outcome of a run.
    Closing,
}

impl Family {
    /// All families, in their order.
    pub const ALL: [Self; 20] = [
        Self::Training,
        Self::Optimizer,
        Self::Attention,
        Self::Fidelity,
        Self::Curvature,
        Self::Rounding,
        Self::Observation,
        Self::Updates,
        Self::UpdateDistances,
        Self::GridEnds,
        Self::ScaleChanges,
        Self::DeadGradients,
        Self::Weights,
        Self::ScaleRegret,
        Self::UlpFromInit,
        Self::Ranks,
        Self::Gradients,
        Self::Codes,
        Self::Speed,
        Self::Closing,
    ];
}
