//! The roles of rounded tensors.

/// A rounded tensor: the operands of a linear layer's three products and the gradient of its weight; and tensors
/// elsewhere in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The layer's weight, `[out, in]`, as an operand of fprop, and by default of dgrad.
    Weight,
    /// The layer's input, `[tokens, in]`, as an operand of fprop, and by default of wgrad.
    Activation,
    /// The gradient of the layer's output, `[tokens, out]`, as an operand of dgrad, and by default of wgrad.
    Grad,
    /// The weight as an operand of dgrad, if it has a cast of its own there.
    WeightDgrad,
    /// The input as an operand of wgrad, if it has a cast of its own there.
    ActivationWgrad,
    /// The output's gradient as an operand of wgrad, if it has a cast of its own there.
    GradWgrad,
    /// The gradient of the weight.
    WeightGrad,
    /// Queries, keys and values with common scales, as the output of attention's linear layer, `[tokens, 3 n_embd]`.
    Qkv,
    /// Queries of attention, `[.., positions, head width]`.
    Query,
    /// Keys of attention, `[.., positions, head width]`.
    Key,
    /// Values of attention, `[.., head width, positions]`: the product with the probabilities contracts over positions.
    Value,
    /// Attention's softmax, `[.., positions, positions]`.
    Probabilities,
    /// The gradient of attention's scores, `[.., positions, positions]`.
    ScoresGrad,
    /// The gradient of the product of probabilities and values, `[.., positions, head width]`.
    AttentionGrad,
    /// The gradient of queries, keys and values together, `[tokens, 3 n_embd]`.
    QkvGrad,
    /// The residual stream after an addition, `[tokens, n_embd]`.
    Residual,
    /// The output of a norm, `[tokens, n_embd]`.
    Norm,
    /// The gain of a norm, `[n_embd]`.
    NormGain,
    /// The embeddings of tokens, `[tokens, n_embd]`.
    Embedding,
    /// The head's output, `[tokens, vocabulary]`.
    Logits,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 20] = [
        Self::Weight,
        Self::Activation,
        Self::Grad,
        Self::WeightDgrad,
        Self::ActivationWgrad,
        Self::GradWgrad,
        Self::WeightGrad,
        Self::Qkv,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Probabilities,
        Self::ScoresGrad,
        Self::AttentionGrad,
        Self::QkvGrad,
        Self::Residual,
        Self::Norm,
        Self::NormGain,
        Self::Embedding,
        Self::Logits,
    ];

    /// The roles of a linear layer.
    pub const LINEAR: [Self; 7] = [
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

    /// True if it is rounded in the backward pass because it is a gradient.
    #[must_use]
    pub fn is_gradient(self) -> bool {
        matches!(
            self,
            Self::Grad
                | Self::GradWgrad
                | Self::WeightGrad
                | Self::ScoresGrad
                | Self::AttentionGrad
                | Self::QkvGrad
        )
    }

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
            Self::Qkv => "qkv",
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::Probabilities => "probabilities",
            Self::ScoresGrad => "scores_grad",
            Self::AttentionGrad => "attention_grad",
            Self::QkvGrad => "qkv_grad",
            Self::Residual => "residual",
            Self::Norm => "norm",
            Self::NormGain => "norm_gain",
            Self::Embedding => "embedding",
            Self::Logits => "logits",
        }
    }

    /// The names of all roles.
    pub const NAMES: [&str; 20] = [
        "weight",
        "activation",
        "grad",
        "weight_dgrad",
        "activation_wgrad",
        "grad_wgrad",
        "weight_grad",
        "qkv",
        "query",
        "key",
        "value",
        "probabilities",
        "scores_grad",
        "attention_grad",
        "qkv_grad",
        "residual",
        "norm",
        "norm_gain",
        "embedding",
        "logits",
    ];

    /// The meaning of the role, in a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Weight => {
                "The layer's weight, `[out, in]`, as an operand of fprop, and by default of dgrad."
            }
            Self::Activation => {
                "The layer's input, `[tokens, in]`, as an operand of fprop, and by default of wgrad."
            }
            Self::Grad => {
                "The gradient of the layer's output, `[tokens, out]`, as an operand of dgrad, and by default of wgrad."
            }
            Self::WeightDgrad => "The weight as an operand of dgrad, if it has a cast of its own there.",
            Self::ActivationWgrad => "The input as an operand of wgrad, if it has a cast of its own there.",
            Self::GradWgrad => {
                "The output's gradient as an operand of wgrad, if it has a cast of its own there."
            }
            Self::WeightGrad => "The gradient of the weight.",
            Self::Qkv => {
                "Queries, keys and values with common scales, as the output of attention's linear layer, `[tokens, 3 n_embd]`."
            }
            Self::Query => "Queries of attention, `[.., positions, head width]`.",
            Self::Key => "Keys of attention, `[.., positions, head width]`.",
            Self::Value => {
                "Values of attention, `[.., head width, positions]`: the product with the probabilities contracts over positions."
            }
            Self::Probabilities => "Attention's softmax, `[.., positions, positions]`.",
            Self::ScoresGrad => "The gradient of attention's scores, `[.., positions, positions]`.",
            Self::AttentionGrad => {
                "The gradient of the product of probabilities and values, `[.., positions, head width]`."
            }
            Self::QkvGrad => "The gradient of queries, keys and values together, `[tokens, 3 n_embd]`.",
            Self::Residual => "The residual stream after an addition, `[tokens, n_embd]`.",
            Self::Norm => "The output of a norm, `[tokens, n_embd]`.",
            Self::NormGain => "The gain of a norm, `[n_embd]`.",
            Self::Embedding => "The embeddings of tokens, `[tokens, n_embd]`.",
            Self::Logits => "The head's output, `[tokens, vocabulary]`.",
        }
    }

    /// The name of the tensors, for messages: `weights`.
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
            Self::Qkv => "queries, keys and values",
            Self::Query => "queries",
            Self::Key => "keys",
            Self::Value => "values",
            Self::Probabilities => "probabilities",
            Self::ScoresGrad => "score gradients",
            Self::AttentionGrad => "attention gradients",
            Self::QkvGrad => "gradients of queries, keys and values",
            Self::Residual => "residual sums",
            Self::Norm => "norm outputs",
            Self::NormGain => "norm gains",
            Self::Embedding => "embeddings",
            Self::Logits => "logits",
        }
    }

    /// The use that a second use reuses by default; `None` for all others.
    #[must_use]
    pub fn first_use(self) -> Option<Self> {
        match self {
            Self::WeightDgrad => Some(Self::Weight),
            Self::ActivationWgrad => Some(Self::Activation),
            Self::GradWgrad => Some(Self::Grad),
            _ => None,
        }
    }

    /// The product that this is an operand of: 0 of the output (fprop), 1 of the input's gradient (dgrad), 2 of the
    /// weight's gradient (wgrad); `None` for all others.
    #[must_use]
    pub fn product(self) -> Option<u8> {
        match self {
            Self::Weight | Self::Activation => Some(0),
            Self::Grad | Self::WeightDgrad => Some(1),
            Self::GradWgrad | Self::ActivationWgrad => Some(2),
            _ => None,
        }
    }
}
