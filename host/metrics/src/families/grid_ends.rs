//! The ends of the grid that an optimizer step reaches.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Ends of the grid",
    text: "Elements of a weight that an update moves to or beyond the smallest or largest grid value, before the final rounding. \
           They are counted for weights without master weights, and for all rounded weights if the optimizer's rule depends on \
           the grid (`stiffness-adamw`, `fp8-manifold`). Missing for parameters that kernels of a GPU update.",
    metrics: METRICS,
};

const GRID_ENDS: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Fraction,
    range: ValueRange::Between(0, 1),
    due: Due::Parameters,
    report: ReportUse::CURVE,
    ..MetricDefinition::new(Family::GridEnds)
};

metrics! {
    /// Fraction of elements at the smallest or largest finite value of the grid, or beyond it.
    CLAMPED_FRAC = { name: "update/clamped_frac", ..GRID_ENDS };
    /// Fraction of the momentum before the step, by magnitude, that the step set to zero at these elements: the state
    /// `exp_avg` or `momentum`. What the step itself adds to it is not counted. Missing without momentum, and unless
    /// the optimizer's rule depends on the grid.
    DROPPED_MOMENTUM = { name: "update/dropped_momentum", ..GRID_ENDS };
}
