//! The roles of what is rounded.

/// What a linear layer rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Its weight, `[out, in]`.
    Weight,
    /// Its input, `[tokens, in]`.
    Activation,
    /// The gradient of its output, `[tokens, out]`.
    Grad,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Weight, Self::Activation, Self::Grad];

    /// The name in run files and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Activation => "activation",
            Self::Grad => "grad",
        }
    }
}
