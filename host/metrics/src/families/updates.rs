//! Values and codes that an optimizer step changed.

use super::macros::metrics;
use crate::{
    alert_definition::{AlertDefinition, AlertKind},
    definition::{Due, FamilyDefinition, MetricDefinition, Range, Scope, Unit},
    family::Family,
    report_use::{Column, ColumnFormat, ReportUse},
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Updates",
    text: "What the optimizer's step changed. Metrics of codes are of weights that are rounded with one scale; the codes \
           before and after the step are those of one scale, to nearest-even: the step's, or without master weights that \
           of the grid after the update.",
    metrics: METRICS,
};

const UPDATES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Share,
    range: Range::Between(0, 1),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::Updates)
};

metrics! {
    /// Share of all elements whose value did not change although their gradient is not zero.
    ZERO_UPDATE_FRAC = { name: "update/zero_update_frac", scopes: &[Scope::Run], ..UPDATES };
    /// Among elements with a gradient, the share whose code did not change.
    BIT_STALL_RATE = {
        name: "update/bit_stall_rate",
        alerts: &[&BIT_STALL_ALERT],
        report: ReportUse {
            layers: &[None],
            column: Some(Column {
                position: 1,
                key: "stall",
                head: "bit stall",
                format: ColumnFormat::Percent,
            }),
            ..ReportUse::CURVE
        },
        ..UPDATES
    };
    /// Share of elements whose code changed.
    FLIP_RATE = { name: "update/flip_rate", ..UPDATES };
    /// Share of elements whose sign changed.
    SIGN_FLIP_RATE = { name: "update/sign_flip_rate", ..UPDATES };
    /// Share of elements whose code before the update is that of two steps ago, with another in between, each at its own
    /// step's scale. Needs `metrics.every = 1`; missing in the first two steps.
    OSCILLATION = { name: "update/oscillation", ..UPDATES };
}

/// Codes that an update leaves as they are.
pub static BIT_STALL_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::BitStall,
    default: 0.5,
    key_text: "Share of a weight's elements whose code an update leaves as it is, 0..1.",
    finding: "of the elements with a gradient keep their code",
};
