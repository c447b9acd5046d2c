//! The subjects of alerts, and their severity.

use serde::{Deserialize, Serialize};

/// The subject of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A NaN or infinite training loss.
    NanLoss,
    /// A NaN or infinite gradient.
    NanGrad,
    /// The held-out loss rose from evaluation to evaluation.
    Divergence,
    /// Updates that leave the codes of a weight as they are.
    BitStall,
    /// Elements beyond a format's largest value.
    Overflow,
    /// Elements that become zero.
    Underflow,
    /// Most elements of a tensor beyond the format's largest value: they share its code.
    CodeSaturation,
    /// A distribution whose tails have become heavier.
    Kurtosis,
    /// Gradients that point elsewhere than those of fp32.
    GradientCosine,
    /// A training loss that rose above its noise and stays there.
    LossRise,
    /// A training loss that is not below the unigram entropy of the corpus.
    NoLearning,
    /// Gradients that are much longer or shorter than those of fp32.
    GradientNorm,
    /// A weight matrix that uses far fewer directions than at first.
    RankCollapse,
    /// Rounding that turns a large fraction of a role's elements into zeros.
    Sparsity,
    /// Scores of attention that make its softmax a choice of one position.
    AttentionLogit,
    /// Gradients of which rounding leaves less signal than noise.
    GradientSqnr,
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing: runs that train well show it too.
    Information,
    /// The run probably trains worse than it would unquantized.
    Warning,
    /// The run is in danger, and its state should be kept.
    Error,
}

impl AlertKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 16] = [
        Self::NanLoss,
        Self::NanGrad,
        Self::Divergence,
        Self::BitStall,
        Self::Overflow,
        Self::Underflow,
        Self::CodeSaturation,
        Self::Kurtosis,
        Self::GradientCosine,
        Self::LossRise,
        Self::NoLearning,
        Self::GradientNorm,
        Self::RankCollapse,
        Self::Sparsity,
        Self::AttentionLogit,
        Self::GradientSqnr,
    ];

    /// The name in events, sinks and `run.json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NanLoss => "nan_loss",
            Self::NanGrad => "nan_grad",
            Self::Divergence => "divergence",
            Self::BitStall => "bit_stall",
            Self::Overflow => "overflow",
            Self::Underflow => "underflow",
            Self::CodeSaturation => "code_saturation",
            Self::Kurtosis => "kurtosis",
            Self::GradientCosine => "gradient_cosine",
            Self::LossRise => "loss_rise",
            Self::NoLearning => "no_learning",
            Self::GradientNorm => "gradient_norm",
            Self::RankCollapse => "rank_collapse",
            Self::Sparsity => "sparsity",
            Self::AttentionLogit => "attention_logit",
            Self::GradientSqnr => "gradient_sqnr",
        }
    }

    /// The key of its threshold in `[alerts]`; `None` if it has none.
    #[must_use]
    pub fn threshold_key(self) -> Option<&'static str> {
        match self {
            Self::NanLoss | Self::NanGrad | Self::Divergence | Self::NoLearning => None,
            Self::BitStall => Some("bit_stall_threshold"),
            Self::Overflow => Some("overflow_threshold"),
            Self::Underflow => Some("underflow_threshold"),
            Self::CodeSaturation => Some("code_saturation_threshold"),
            Self::Kurtosis => Some("kurtosis_threshold"),
            Self::GradientCosine => Some("gradient_cosine_threshold"),
            Self::LossRise => Some("loss_rise_threshold"),
            Self::GradientNorm => Some("gradient_norm_threshold"),
            Self::RankCollapse => Some("stable_rank_threshold"),
            Self::Sparsity => Some("sparsity_threshold"),
            Self::AttentionLogit => Some("attention_logit_threshold"),
            Self::GradientSqnr => Some("gradient_sqnr_threshold"),
        }
    }

    /// The severity of the kind.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::NanLoss | Self::NanGrad | Self::Divergence | Self::LossRise => Severity::Error,
            Self::Kurtosis | Self::RankCollapse => Severity::Information,
            _ => Severity::Warning,
        }
    }
}

/// The learning rate from which on it is high, as a fraction of its largest value so far.
pub const HIGH_RATE: f64 = 0.25;
