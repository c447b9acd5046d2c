//! Distances of optimizer steps, in codes.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Range, Scope, Shape, Unit},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Update distances",
    text: "How far a step moved each weight, in the code coordinate of its format, at the scale of its codes; of weights that are \
           rounded with one scale. Percentiles are interpolated in the histogram's bins and differ from the exact ones by \
           at most 12.5 %. Values are missing where a weight is not finite.",
    metrics: METRICS,
};

const DISTANCES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Ulp,
    range: Range::AtLeast(0),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::UpdateDistances)
};

metrics! {
    /// Mean distance.
    ULP_ABS_MEAN = { name: "update/ulp_abs_mean", ..DISTANCES };
    /// Median distance.
    ULP_ABS_P50 = { name: "update/ulp_abs_p50", report: ReportUse::CURVE, ..DISTANCES };
    /// 99th percentile of the distances.
    ULP_ABS_P99 = { name: "update/ulp_abs_p99", report: ReportUse::CURVE, ..DISTANCES };
    /// Share of elements whose exponent changed.
    BINADE_CROSSINGS = {
        name: "update/binade_crossings",
        unit: Unit::Share,
        range: Range::Between(0, 1),
        ..DISTANCES
    };
    /// Elements by distance: how much of the update the grid keeps.
    ULP_HIST = {
        name: "update/ulp_hist",
        unit: Unit::Elements,
        scopes: &[Scope::Layer],
        shape: Shape::Distribution,
        due: Due::Distributions,
        ..DISTANCES
    };
}
