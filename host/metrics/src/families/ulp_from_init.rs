//! Distances from the initial weights, in codes.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Range, Scope, Unit},
    family::Family,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Distance from the initial weights",
    text: "Distance from the weights before the run's first update to those before this step's update, in the code coordinate, \
           both at the scale k that rounded the weight in this step, for weights that are rounded with one scale. A resumed \
           run keeps its first weights.",
    metrics: METRICS,
};

const FROM_INIT: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    due: Due::Distributions,
    ..MetricDefinition::new(Family::UlpFromInit)
};

metrics! {
    /// Mean distance from the initial weights.
    ULP_FROM_INIT = { name: "update/ulp_from_init", unit: Unit::Ulp, range: Range::AtLeast(0), ..FROM_INIT };
}
