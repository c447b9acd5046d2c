//! Weights beside the grid that they are rounded to.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange, ValueShape},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Weights",
    text: "Weights before the step's update. S(w) is the spacing of the grid at w, in weight units. Metrics of the grid \
           exist for weights that are rounded with one scale, and are missing if a weight is not finite.",
    metrics: METRICS,
};

const WEIGHTS: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    due: Due::Distributions,
    ..MetricDefinition::new(Family::Weights)
};

const HISTOGRAM: MetricDefinition = MetricDefinition {
    unit: Unit::Elements,
    range: ValueRange::AtLeast(0),
    shape: ValueShape::Distribution,
    ..WEIGHTS
};

metrics! {
    /// Mean of |w - nearest value| / S(w); 0 on the grid, 1/4 for weights that are independent of it.
    GRID_ALIGNMENT = {
        name: "weights/grid_alignment",
        range: ValueRange::AtLeast(0),
        report: ReportUse::LAYERS,
        ..WEIGHTS
    };
    /// Mean of log2 S(w).
    STIFFNESS_MEAN = { name: "weights/stiffness_mean", unit: Unit::Binades, ..WEIGHTS };
    /// Pearson correlation of log2 S(w) and log2 |g|, over elements with a gradient.
    STIFFNESS_GRAD_CORR = {
        name: "weights/stiffness_grad_corr",
        range: ValueRange::Between(-1, 1),
        report: ReportUse::LAYERS,
        ..WEIGHTS
    };
    /// Weights by value, in 64 equal bins between the smallest and the largest.
    HIST = { name: "weights/hist", ..HISTOGRAM };
    /// Weights by grid spacing, one bin per binade.
    SPACING_HIST = { name: "weights/spacing_hist", ..HISTOGRAM };
}
