//! Elements whose gradient is nearly zero for many steps in a row.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    family::Family,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Dead gradients",
    text: "Elements whose gradient before clipping stays below `metrics.dead_gradient_threshold` for \
           `metrics.dead_neuron_window` steps in a row. Values are missing until that many steps are measured.",
    metrics: METRICS,
};

const DEAD: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    unit: Unit::Fraction,
    range: ValueRange::Between(0, 1),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::DeadGradients)
};

metrics! {
    /// Fraction of elements with |g| below the threshold in each step of the window.
    DEAD_PERSISTENT = { name: "dead_persistent", ..DEAD };
    /// Fraction of the rows of a matrix, its output neurons, whose elements are all dead. Missing on a GPU.
    DEAD_ROWS = { name: "dead_rows", ..DEAD };
}
