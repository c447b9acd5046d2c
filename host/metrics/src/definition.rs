//! The definitions of a metric, of an alert about it, and of a family of metrics.

use std::fmt;

use crate::{alert_kind::AlertKind, family::Family, report_use::ReportUse};

/// The definition of one metric. Definitions are statics of [`crate::families`] and are compared by identity.
#[derive(Debug)]
pub struct MetricDefinition {
    /// The family it belongs to.
    pub family: Family,
    /// Its name over the whole run: `train/loss`, `quant/overflow_rate`, `grad_norm_l2`. A role follows the first `/`;
    /// an index and a layer are at the end.
    pub name: &'static str,
    /// The meaning, for the reference.
    pub meaning: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Range of its values.
    pub range: ValueRange,
    /// The scopes of its values.
    pub scopes: &'static [Scope],
    /// The number that distinguishes metrics of one definition, if there is one.
    pub index: Option<Index>,
    /// True if metrics of the definition are distinguished by a format, or by a name in its place.
    pub by_format: bool,
    /// The kind: equal runs give equal values, or not.
    pub kind: MetricKind,
    /// The shape: a number or a distribution.
    pub shape: ValueShape,
    /// At which steps it is recorded.
    pub due: Due,
    /// Alerts about values that are too large.
    pub alerts: &'static [&'static AlertDefinition],
    /// The use in the report.
    pub report: ReportUse,
}

impl MetricDefinition {
    /// A dimensionless, reproducible number of the whole run, recorded at every step: the start of definitions.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            family,
            name: "",
            meaning: "",
            unit: Unit::Number,
            range: ValueRange::Any,
            scopes: &[Scope::Run],
            index: None,
            by_format: false,
            kind: MetricKind::Reproducible,
            shape: ValueShape::Number,
            due: Due::EveryStep,
            alerts: &[],
            report: ReportUse::NONE,
        }
    }

    /// True if it has values of that scope.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// The part of the name before the role, if there is one, and the part after it.
    #[must_use]
    pub fn parts(&self) -> (Option<&'static str>, &'static str) {
        self.name.split_once('/').map_or((None, self.name), |(prefix, rest)| (Some(prefix), rest))
    }

    /// The meaning on one line.
    #[must_use]
    pub fn meaning(&self) -> String {
        self.meaning.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl PartialEq for MetricDefinition {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for MetricDefinition {}

/// The condition of an alert.
#[derive(Debug, Clone, Copy)]
pub enum Condition {
    /// Above the threshold.
    Above,
    /// Below the threshold, over all layers.
    Below,
    /// Above the threshold over all layers, while the learning rate is high: after warm-up, and at least `HIGH_RATE` of
    /// its largest value. At a lower rate the value matters little.
    AboveAtHighRate,
    /// Above the threshold, where the SQNR at the same place, this metric in dB, is below `sqnr_threshold`.
    AboveWithNoise(&'static MetricDefinition),
    /// Above the threshold, and above its first value at the same place times `kurtosis_growth`.
    AboveAndGrown,
    /// Above the threshold over all layers, and at least twice its first value.
    AboveAndDoubled,
    /// Above the threshold over all layers of a role.
    AboveOverRole,
    /// Below the threshold for gradients: those of a layer, or of a role over all layers.
    BelowOfGradient,
    /// Above the threshold or below its inverse, over all layers.
    Outside,
    /// Below its first value at the same place times the threshold.
    BelowFirst,
}

/// An alert about a metric on the wrong side of a threshold, at any place where the metric is measured.
#[derive(Debug)]
pub struct AlertDefinition {
    /// The kind of the alert.
    pub kind: AlertKind,
    /// The condition on the value.
    pub condition: Condition,
    /// The threshold without a value in the run file.
    pub default: f64,
    /// The meaning of the threshold's key in `[alerts]`.
    pub key_text: &'static str,
    /// The middle of the alert's sentence, between the value and the metric's name.
    pub finding: &'static str,
}

/// A family: metrics that one file of the engine computes.
#[derive(Debug)]
pub struct FamilyDefinition {
    /// Heading in the reference.
    pub title: &'static str,
    /// The common properties of its metrics, for the reference.
    pub text: &'static str,
    /// Its definitions, in the order of the reference.
    pub metrics: &'static [&'static MetricDefinition],
}

/// The subject of a metric: the run or the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Equal in equal runs: bit-identical on one machine.
    Reproducible,
    /// Time, rate, memory: differs between equal runs.
    Timing,
}

/// The shape of a metric: a number or a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueShape {
    /// A number.
    Number,
    /// Counts by bin.
    Distribution,
}

/// The scope of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole run.
    Run,
    /// The mean of the layers' values.
    MeanOfLayers,
    /// The least of the layers' values.
    LeastOfLayers,
    /// All tensors of a role.
    Role,
    /// One layer, named by its parameter.
    Layer,
    /// One role of one layer.
    RoleAndLayer,
}

/// A number in a metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// A bit of a code, the lowest first.
    Bit,
    /// Binades by which a scale is moved.
    Offset,
}

impl Index {
    /// The placeholder in name patterns.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Bit => "BIT",
            Self::Offset => "OFFSET",
        }
    }

    /// The values that it takes.
    #[must_use]
    pub fn range(self) -> std::ops::RangeInclusive<i8> {
        match self {
            Self::Bit => 0..=7,
            Self::Offset => -3..=3,
        }
    }
}

/// At which steps a metric is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Every step.
    EveryStep,
    /// Steps with an evaluation.
    Evaluations,
    /// Every step, under dynamic loss scaling.
    LossScaling,
    /// Steps with a shadow pass.
    ShadowSteps,
    /// Steps that measure curvature.
    Curvature,
    /// Steps that measure gradients and updates by parameter.
    Parameters,
    /// Steps that measure attention.
    Attention,
    /// Steps that measure distributions.
    Distributions,
    /// Steps that measure distributions or the kurtosis alone.
    Kurtosis,
    /// Steps that measure the effect of formats on unrounded tensors.
    Observations,
    /// Steps that find the singular values of the weights.
    Ranks,
    /// The end of the run.
    End,
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EveryStep => "every step",
            Self::Evaluations => "`train.eval_interval`",
            Self::LossScaling => "every step with `train.loss_scale = \"dynamic\"`",
            Self::ShadowSteps => "`shadow.every`",
            Self::Curvature => "`curvature.every`",
            Self::Parameters => "`metrics.every`",
            Self::Attention => "`metrics.every` with `metrics.attention`",
            Self::Distributions => "`metrics.histograms_every`",
            Self::Kurtosis => "`metrics.kurtosis_every` and `metrics.histograms_every`",
            Self::Observations => "`observe.every`",
            Self::Ranks => "`metrics.rank_every`",
            Self::End => "end of the run",
        })
    }
}

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// None.
    Number,
    /// A fraction of a whole.
    Fraction,
    /// A number of elements.
    Elements,
    /// Information, natural logarithm.
    NatsPerToken,
    /// Information, logarithm to base 2.
    Bits,
    /// Ten times the decimal logarithm of a ratio.
    Decibels,
    /// Codes of a format: units in the last place.
    Ulp,
    /// Logarithm to base 2.
    Binades,
    /// Tokens a second.
    TokensPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Millions of bytes.
    Megabytes,
}

impl Unit {
    /// A value for a sentence: fractions in percent, three digits after the point.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Fraction => format!("{} %", (value * 1e5).round() / 1e3),
            _ => format!("{}", (value * 1e3).round() / 1e3),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "1",
            Self::Fraction => "fraction",
            Self::Elements => "elements",
            Self::NatsPerToken => "nats/token",
            Self::Bits => "bits",
            Self::Decibels => "dB",
            Self::Ulp => "ULP",
            Self::Binades => "binades",
            Self::TokensPerSecond => "tokens/s",
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
        })
    }
}

/// The range of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRange {
    /// Any number.
    Any,
    /// Not below.
    AtLeast(i8),
    /// From the first to the second, both included.
    Between(i8, i8),
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Between(least, most) => write!(f, "{least}..{most}"),
        }
    }
}
