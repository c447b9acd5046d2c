//! Similarity of gradients to the unquantized ones.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{
        AlertDefinition, Condition, Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange,
    },
    family::Family,
    report_use::{Column, ColumnFormat, ReportUse},
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Gradient fidelity",
    text: "The step's gradient compared with the unquantized fp32 gradient of the same batch and weights. A value of the run \
           takes all parameters as one vector. Values are missing if either gradient is zero or not finite.",
    metrics: METRICS,
};

const FIDELITY: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::MeanOfLayers, Scope::LeastOfLayers, Scope::Layer],
    due: Due::ShadowSteps,
    ..MetricDefinition::new(Family::Fidelity)
};

metrics! {
    /// Cosine of the angle between the two gradients.
    GRAD_COS_SIM = {
        name: "grad_cos_sim",
        range: ValueRange::Between(-1, 1),
        alerts: &[&GRADIENT_COSINE_ALERT],
        report: ReportUse {
            layers: &[None],
            column: Some(Column {
                position: 0,
                key: "cosine",
                head: "gradient cosine",
                format: ColumnFormat::Fixed(4),
            }),
            ..ReportUse::CURVE
        },
        ..FIDELITY
    };
    /// Quotient of the L2 norms, quantized over fp32.
    GRAD_NORM_RATIO = {
        name: "grad_norm_ratio",
        range: ValueRange::AtLeast(0),
        alerts: &[&GRADIENT_NORM_ALERT],
        report: ReportUse::LAYERS,
        ..FIDELITY
    };
    /// Fraction of elements with the same sign.
    GRAD_SIGN_AGREE = { name: "grad_sign_agree", unit: Unit::Fraction, range: ValueRange::Between(0, 1), ..FIDELITY };
    /// L2 norm of the unquantized gradient divided by that of the difference between the two gradients. Below the
    /// square root of 3, the decrease of the loss per step falls quickly as noise grows (arXiv:2505.19115). Missing
    /// above about 300, where f32 sums do not resolve the difference.
    GRAD_SIGNAL_TO_NOISE = { name: "grad_signal_to_noise", range: ValueRange::AtLeast(0), ..FIDELITY };
}

/// Gradients that point elsewhere than those of fp32.
pub static GRADIENT_COSINE_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::GradientCosine,
    condition: Condition::Below,
    default: 0.5,
    key_text: "Smallest cosine without an alert between the quantized gradient and that of fp32 on the same batch, over all \
               parameters, -1..1. Needs shadow steps.",
    finding: "is the cosine to the gradient of fp32",
};

/// Gradients that are much longer or shorter than those of fp32.
pub static GRADIENT_NORM_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::GradientNorm,
    condition: Condition::Outside,
    default: 2.0,
    key_text: "Largest ratio without an alert of the norm of the quantized gradient to that of fp32 on the same batch, over \
               all parameters. A ratio below its inverse also raises the alert. Needs shadow steps.",
    finding: "is the quotient of the gradient's norm and that of fp32",
};
