//! Distances from the initial weights, in codes.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    families::updates::BIT_STALL_ALERT,
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Distance from the initial weights",
    text: "From the weights before the run's first update to those before this step's update, both at the scales that rounded the \
           weight in this step. A resumed run keeps its first weights.",
    metrics: METRICS,
};

const FROM_INIT: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    due: Due::Distributions,
    ..MetricDefinition::new(Family::UlpFromInit)
};

metrics! {
    /// Mean distance in the code coordinate, for weights that are rounded with one scale.
    ULP_FROM_INIT = { name: "update/ulp_from_init", unit: Unit::Ulp, range: ValueRange::AtLeast(0), ..FROM_INIT };
    /// Fraction of the movement of master weights since the start that rounding to nearest removes:
    /// `1 - sum(d r)/sum(d^2)`, where `d` is the change of the weights and `r` that of the rounded weights. 0 in
    /// expectation, 1 if no rounded weight moves.
    MOVEMENT_LOSS = {
        name: "update/movement_loss",
        scopes: &[Scope::Run, Scope::Layer],
        unit: Unit::Fraction,
        alerts: &[&BIT_STALL_ALERT],
        report: ReportUse::CURVE,
        ..FROM_INIT
    };
}
