//! The roles of what is rounded.

/// What a linear layer rounds: the operands of its three products, and the gradient of its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Its weight, `[out, in]`, in the product of the output (and where it is used again).
    Weight,
    /// Its input, `[tokens, in]`, in the product of the output (and where it is used again).
    Activation,
    /// The gradient of its output, `[tokens, out]`, in the product of the input's gradient (and where it is used again).
    Grad,
    /// The weight in the product of the input's gradient, where that is a cast of its own.
    WeightDgrad,
    /// The input in the product of the weight's gradient, where that is a cast of its own.
    ActivationWgrad,
    /// The output's gradient in the product of the weight's gradient, where that is a cast of its own.
    GradWgrad,
    /// The gradient of the weight.
    WeightGrad,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 7] = [
        Self::Weight,
        Self::Activation,
        Self::Grad,
        Self::WeightDgrad,
        Self::ActivationWgrad,
        Self::GradWgrad,
        Self::WeightGrad,
    ];

    /// The first uses of the three operands.
    pub const FIRST_USES: [Self; 3] = [Self::Weight, Self::Activation, Self::Grad];

    /// The name in run files and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Activation => "activation",
            Self::Grad => "grad",
            Self::WeightDgrad => "weight_dgrad",
            Self::ActivationWgrad => "activation_wgrad",
            Self::GradWgrad => "grad_wgrad",
            Self::WeightGrad => "weight_grad",
        }
    }

    /// What is rounded, for messages: `weights`.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Weight => "weights",
            Self::Activation => "activations",
            Self::Grad => "gradients",
            Self::WeightDgrad => "weights in dgrad",
            Self::ActivationWgrad => "activations in wgrad",
            Self::GradWgrad => "gradients in wgrad",
            Self::WeightGrad => "weight gradients",
        }
    }

    /// The use that a second use reuses unless told otherwise; `None` for first uses and for the weight's gradient.
    #[must_use]
    pub fn first_use(self) -> Option<Self> {
        match self {
            Self::WeightDgrad => Some(Self::Weight),
            Self::ActivationWgrad => Some(Self::Activation),
            Self::GradWgrad => Some(Self::Grad),
            Self::Weight | Self::Activation | Self::Grad | Self::WeightGrad => None,
        }
    }

    /// The product that this is an operand of: 0 of the output (fprop), 1 of the input's gradient (dgrad), 2 of the weight's
    /// gradient (wgrad); `None` for the weight's gradient, which is a result.
    #[must_use]
    pub fn product(self) -> Option<u8> {
        match self {
            Self::Weight | Self::Activation => Some(0),
            Self::Grad | Self::WeightDgrad => Some(1),
            Self::GradWgrad | Self::ActivationWgrad => Some(2),
            Self::WeightGrad => None,
        }
    }
}
