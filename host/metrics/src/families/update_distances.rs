//! Distances of optimizer steps, in codes.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange, ValueShape},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Update distances",
    text: "Distance from each weight before the update to the weight after it, in the code coordinate of its format, both at the \
           scale k of its codes (as for `update/flip_rate`), for weights that are rounded with one scale. Percentiles are \
           interpolated in the histogram's bins on all devices. Values are missing if a weight is not finite.",
    metrics: METRICS,
};

const DISTANCES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Ulp,
    range: ValueRange::AtLeast(0),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::UpdateDistances)
};

metrics! {
    /// Mean distance.
    ULP_ABS_MEAN = { name: "update/ulp_abs_mean", ..DISTANCES };
    /// Median distance, interpolated in bins of an eighth of a binade: within 12.5 % of the order statistic.
    ULP_ABS_P50 = { name: "update/ulp_abs_p50", report: ReportUse::CURVE, ..DISTANCES };
    /// 99th percentile of the distances, from the same bins: within 12.5 % of the order statistic.
    ULP_ABS_P99 = { name: "update/ulp_abs_p99", report: ReportUse::CURVE, ..DISTANCES };
    /// Fraction of elements whose scaled value k w lies in another binade after the update than before it. All values
    /// below the smallest normal value count as one binade; signs are ignored.
    BINADE_CROSSINGS = {
        name: "update/binade_crossings",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        ..DISTANCES
    };
    /// Elements by distance of the update.
    ULP_HIST = {
        name: "update/ulp_hist",
        unit: Unit::Elements,
        scopes: &[Scope::Layer],
        shape: ValueShape::Distribution,
        due: Due::Distributions,
        ..DISTANCES
    };
}
