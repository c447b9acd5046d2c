//! Ranks of weight matrices.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{AlertDefinition, Condition, Due, FamilyDefinition, MetricDefinition, Scope, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Ranks",
    text: "Ranks of each weight matrix before the step's update, from its singular values; between 1 and the smaller extent. \
           Missing for a zero matrix and if a weight is not finite. The effective rank is that of Roy and Vetterli, \
           \"The effective rank: a measure of effective dimensionality\" (2007).",
    metrics: METRICS,
};

const RANKS: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    range: ValueRange::AtLeast(1),
    due: Due::Ranks,
    report: ReportUse::LAYERS,
    ..MetricDefinition::new(Family::Ranks)
};

metrics! {
    /// Squared Frobenius norm over squared largest singular value.
    STABLE_RANK = { name: "weights/stable_rank", alerts: &[&RANK_ALERT], ..RANKS };
    /// `exp` of the entropy of the singular values divided by their sum.
    EFFECTIVE_RANK = { name: "weights/effective_rank", ..RANKS };
}

/// A weight matrix that uses far fewer directions than at first.
pub static RANK_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::RankCollapse,
    condition: Condition::BelowFirst,
    default: 0.1,
    key_text: "Smallest stable rank of a weight matrix without an alert, as a fraction of its first measurement. Needs \
               `metrics.rank_every`.",
    finding: "is the stable rank",
};
