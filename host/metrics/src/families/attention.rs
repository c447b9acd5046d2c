//! Metrics of attention.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{
        AlertDefinition, Condition, Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange,
    },
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Attention",
    text: "The attention of each block, named by the weight of its queries, keys and values. Entropies collapse and scores \
           grow before attention diverges (Zhai et al., arXiv:2303.06296, section 3; arXiv:2302.05442, section 2.1).",
    metrics: METRICS,
};

const ATTENTION: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Layer],
    due: Due::Attention,
    report: ReportUse::LAYERS,
    ..MetricDefinition::new(Family::Attention)
};

const ENTROPY: MetricDefinition =
    MetricDefinition { unit: Unit::Fraction, range: ValueRange::Between(0, 1), ..ATTENTION };

metrics! {
    /// Entropy of the softmax of a query's scores, divided by `ln n` for a query that attends to `n` positions: mean
    /// over heads and all queries except the first, in all micro-batches. 1 for uniform attention, 0 for attention to
    /// one position.
    ATTENTION_ENTROPY = { name: "attention/entropy", ..ENTROPY };
    /// The same entropy of the head with the lowest entropy.
    LEAST_HEAD_ENTROPY = { name: "attention/least_head_entropy", ..ENTROPY };
    /// Largest score `q k / sqrt(head width)` of a query and a position that it attends to; NaN if a softmax is not
    /// finite.
    MAX_LOGIT = {
        name: "attention/max_logit",
        scopes: &[Scope::Run, Scope::Layer],
        alerts: &[&ATTENTION_LOGIT_ALERT],
        report: ReportUse { curves: &[None], ..ReportUse::LAYERS },
        ..ATTENTION
    };
    /// Entropy in nats of `s^2 / sum s^2`, with `s` the singular values of `W_q^T W_k` of a head, for the head with the
    /// lowest entropy: a measure of the number of directions that determine attention scores. At most `ln(head width)`.
    /// Missing if a weight is not finite or if all are zero.
    QK_ENTROPY = {
        name: "attention/qk_entropy",
        range: ValueRange::AtLeast(0),
        due: Due::Distributions,
        ..ATTENTION
    };
}

/// Scores of attention that make its softmax a choice of one position.
pub static ATTENTION_LOGIT_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::AttentionLogit,
    condition: Condition::AboveAndDoubled,
    default: 100.0,
    key_text: "Largest score of attention, `q k / sqrt(head width)`, without an alert. The score must also be at least twice the first \
               one. The softmax then chooses one position, and the learning rate is probably too high.",
    finding: "is the largest score of attention",
};
