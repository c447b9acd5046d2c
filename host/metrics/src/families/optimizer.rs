//! Numbers that an optimizer plugin keeps.

use super::macros::metrics;
use crate::{
    definition::{FamilyDefinition, MetricDefinition},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Optimizer",
    text: "Numbers that the optimizer keeps for all parameters together, such as Prodigy's estimate of the distance.",
    metrics: METRICS,
};

metrics! {
    /// A state of one number, after the step's update. Options in `[[optimizer.group]]` make another instance of the
    /// optimizer, whose states have its number at the end: `optimizer/d-1`.
    OWN_NUMBER = {
        name: "optimizer",
        by_format: true,
        report: ReportUse::NONE,
        ..MetricDefinition::new(Family::Optimizer)
    };
}
