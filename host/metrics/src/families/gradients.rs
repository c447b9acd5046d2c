//! Gradients by parameter.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Gradients",
    text: "The gradient of each parameter before clipping. If an element is not finite, only the norms have a value.",
    metrics: METRICS,
};

const GRADIENTS: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    range: ValueRange::AtLeast(0),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::Gradients)
};

metrics! {
    /// L2 norm.
    GRAD_NORM_L2 = { name: "grad_norm_l2", report: ReportUse::LAYERS, ..GRADIENTS };
    /// Largest magnitude.
    GRAD_NORM_LINF = { name: "grad_norm_linf", ..GRADIENTS };
    /// |mean| / (standard deviation + 1e-10) over the elements. Earlier versions called it `grad_snr`; it is not the
    /// literature's ratio across micro-batches.
    GRAD_MEAN_OVER_STD = { name: "grad_mean_over_std", ..GRADIENTS };
    /// Fraction of elements with |g| < 1e-8 in this step.
    DEAD_FRAC = {
        name: "dead_frac",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        report: ReportUse::LAYERS,
        ..GRADIENTS
    };
}
