//! The names of the families, and their order.

/// The families, in the order in which a run announces their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Loss, gradient norm, learning rate.
    Training,
    /// What attention looks at.
    Attention,
    /// Gradients beside unquantized ones.
    Fidelity,
    /// What rounding did to the tensors of a step.
    Rounding,
    /// What formats would do to tensors.
    Observation,
    /// Values and codes that an update changed.
    Updates,
    /// Distances of updates.
    UpdateDistances,
    /// Scales of weights without master weights.
    ScaleChanges,
    /// Elements without a gradient for many steps.
    DeadGradients,
    /// Weights beside the grid.
    Weights,
    /// Signal to noise at other scales.
    ScaleRegret,
    /// Distances from the initial weights.
    UlpFromInit,
    /// Directions that matrices use.
    Ranks,
    /// Gradients by parameter.
    Gradients,
    /// How codes are used.
    Codes,
    /// Times and rates.
    Speed,
    /// The outcome of a run.
    Closing,
}

impl Family {
    /// All families, in their order.
    pub const ALL: [Self; 17] = [
        Self::Training,
        Self::Attention,
        Self::Fidelity,
        Self::Rounding,
        Self::Observation,
        Self::Updates,
        Self::UpdateDistances,
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
