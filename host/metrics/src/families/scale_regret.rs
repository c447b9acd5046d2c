//! SQNR of weights at other scales.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, Index, MetricDefinition, Scope, Unit},
    family::Family,
    report_use::ReportUse,
    role::Role,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Scale regret",
    text: "Regret of the scaling rule: the highest SQNR over all offsets minus that at offset 0. For weights that are \
           rounded with one scale; missing if the weights lie on the grid.",
    metrics: METRICS,
};

const REGRET: MetricDefinition = MetricDefinition {
    scopes: &[Scope::RoleAndLayer],
    unit: Unit::Decibels,
    due: Due::Distributions,
    ..MetricDefinition::new(Family::ScaleRegret)
};

metrics! {
    /// SQNR of the weight before the step, rounded to nearest-even at the step's scale times `2^OFFSET`.
    SQNR_DB_AT = {
        name: "quant/sqnr_db_at",
        index: Some(Index::Offset),
        report: ReportUse { layers: &[Some(Role::Weight)], ..ReportUse::NONE },
        ..REGRET
    };
}
