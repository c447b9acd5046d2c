//! Values and codes that an optimizer step changed.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{
        AlertDefinition, Condition, Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange,
    },
    family::Family,
    report_use::{Column, ColumnFormat, ReportUse},
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Updates",
    text: "Changes by the optimizer's step. Metrics of codes exist for weights that are rounded with one scale. Codes before \
           and after the step are rounded to nearest-even with the same scale: that of the step, or without master weights \
           that of the grid after the update.",
    metrics: METRICS,
};

const UPDATES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Fraction,
    range: ValueRange::Between(0, 1),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::Updates)
};

metrics! {
    /// Fraction of all elements that did not change although their gradient is not zero. An element of a weight without
    /// master weights and with one scale did not change if its code did not.
    ZERO_UPDATE_FRAC = {
        name: "update/zero_update_frac",
        scopes: &[Scope::Run],
        report: ReportUse::CURVE,
        ..UPDATES
    };
    /// Among elements with a gradient, the fraction whose code did not change.
    BIT_STALL_RATE = {
        name: "update/bit_stall_rate",
        report: ReportUse {
            layers: &[None],
            column: Some(Column {
                position: 1,
                key: "stall",
                head: "codes unchanged",
                format: ColumnFormat::Percent,
            }),
            ..ReportUse::CURVE
        },
        ..UPDATES
    };
    /// Fraction of the intended update that its rounding removed: `1 - sum(d r)/sum(d^2)`, where `d` is the update
    /// before rounding to the grid and `r` the update after it. 0 if nothing is lost, 1 if no weight moves, and 0 in
    /// expectation for stochastic rounding. With error feedback the residual belongs to the weight: what it keeps is
    /// not lost.
    ROUNDING_LOSS = {
        name: "update/rounding_loss",
        range: ValueRange::Any,
        alerts: &[&BIT_STALL_ALERT],
        report: ReportUse::CURVE,
        ..UPDATES
    };
    /// Fraction of elements whose code changed.
    FLIP_RATE = { name: "update/flip_rate", ..UPDATES };
    /// Fraction of elements whose sign changed.
    SIGN_FLIP_RATE = { name: "update/sign_flip_rate", ..UPDATES };
    /// Fraction of elements whose code equals that of two steps ago and differs from that of the last step, each at the
    /// scale of its step. Needs `metrics.every = 1`; missing in the first two steps.
    OSCILLATION = { name: "update/oscillation", ..UPDATES };
}

/// Updates that rounding removes: of a step without master weights, of all steps so far with them. At the end of a
/// schedule updates are small, rounding removes many of them, and what they would have changed is small too.
pub static BIT_STALL_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::BitStall,
    condition: Condition::AboveAtHighRate,
    default: 0.33,
    key_text: "Largest fraction of the update that rounding may remove without an alert, over all weights, 0..1. Without master weights \
    it is per step; with them it is cumulative. The alert is evaluated after warm-up while the learning \
    rate is at least a quarter of its largest value.",
    finding: "of the intended change is lost to rounding",
};
