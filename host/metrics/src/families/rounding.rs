//! Effect of rounding on the tensors of a step.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{AlertDefinition, Condition, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    family::Family,
    report_use::{Column, ColumnFormat, ReportUse},
    role::Role,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Rounding",
    text: "All elements that the step rounded, by role and by layer. x is an element before scaling and rounding, \
           x_hat the rounded element.",
    metrics: METRICS,
};

const ROUNDING: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Role, Scope::RoleAndLayer],
    ..MetricDefinition::new(Family::Rounding)
};

metrics! {
    /// Elements beyond the format's largest value after scaling, which saturate, as a fraction of those that are not
    /// NaN.
    OVERFLOW_RATE = {
        name: "quant/overflow_rate",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        alerts: &[&OVERFLOW_ALERT, &CODE_SATURATION_ALERT],
        report: ReportUse {
            curves: &[None],
            layers: &[Some(Role::Weight), Some(Role::Activation), Some(Role::Grad)],
            column: Some(Column {
                position: 2,
                key: "overflow",
                head: "overflow",
                format: ColumnFormat::Percent,
            }),
        },
        ..ROUNDING
    };
    /// Elements that become zero, as a fraction of those that are neither zero nor NaN.
    UNDERFLOW_RATE = {
        name: "quant/underflow_rate",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        alerts: &[&UNDERFLOW_ALERT, &SPARSITY_ALERT],
        report: ReportUse { curves: &[None, Some(Role::Grad)], layers: &[Some(Role::Grad)], column: None },
        ..ROUNDING
    };
    /// NaN elements before rounding.
    NAN_COUNT = { name: "quant/nan_count", unit: Unit::Elements, range: ValueRange::AtLeast(0), ..ROUNDING };
    /// Signal-to-quantization-noise ratio, 10 log10(sum x^2 / sum (x_hat - x)^2). Over all roles: the lowest value of a
    /// role. Missing if rounding changed nothing.
    SQNR_DB = {
        name: "quant/sqnr_db",
        unit: Unit::Decibels,
        alerts: &[&GRADIENT_SQNR_ALERT],
        report: ReportUse { curves: &[None], layers: &[Some(Role::Weight)], column: None },
        ..ROUNDING
    };
    /// sum(x x_hat) / sum(x^2) - 1: the relative change of the tensor's length in its own direction.
    SHRINKAGE = { name: "quant/shrinkage", ..ROUNDING };
    /// Largest finite magnitude before scaling and rounding, over all micro-batches of the step. Missing if all
    /// elements are zero.
    AMAX = { name: "quant/amax", range: ValueRange::AtLeast(0), ..ROUNDING };
    /// Factor by which elements are multiplied before rounding. By layer only, for tensors with one scale that is not
    /// part of the training state; the scale of the micro-batch with the largest magnitude.
    SCALE = { name: "quant/scale", range: ValueRange::AtLeast(0), scopes: &[Scope::RoleAndLayer], ..ROUNDING };
}

/// Elements beyond the largest value.
pub static OVERFLOW_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::Overflow,
    condition: Condition::AboveWithNoise(&SQNR_DB),
    default: 0.01,
    key_text: "Fraction of elements beyond the format's largest value, 0..1, where the SQNR is below `sqnr_threshold`.",
    finding: "of the elements are beyond the format's largest value",
};

/// Most of a tensor beyond the largest value.
pub static CODE_SATURATION_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::CodeSaturation,
    condition: Condition::Above,
    default: 0.5,
    key_text: "Fraction of a tensor's elements beyond the format's largest value, 0..1. These elements share one code, so that \
               most of the tensor's information is lost.",
    finding: "of the elements share the largest code",
};

/// Elements that become zero.
pub static UNDERFLOW_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::Underflow,
    condition: Condition::AboveWithNoise(&SQNR_DB),
    default: 0.01,
    key_text: "Fraction of non-zero elements that become zero, 0..1, where the SQNR is below `sqnr_threshold`.",
    finding: "of the non-zero elements become zero",
};

/// Rounding that turns a large fraction of a role's elements into zeros.
pub static SPARSITY_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::Sparsity,
    condition: Condition::AboveOverRole,
    default: 0.4,
    key_text: "Fraction of the non-zero elements of a role, over all layers, that become zero, 0..1. The SQNR has no \
               effect.",
    finding: "of the non-zero elements become zero over all layers",
};

/// Gradients of which little is left, whatever fraction of their elements is changed: a few elements may carry all of a
/// tensor.
pub static GRADIENT_SQNR_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::GradientSqnr,
    condition: Condition::BelowOfGradient,
    default: 1.0,
    key_text: "Smallest SQNR in dB without an alert of the gradients of a layer. At 1 dB the noise of rounding has four fifths of the \
               signal's energy. The fraction of elements that overflow or underflow has no effect.",
    finding: "is the signal-to-noise ratio of rounded gradients",
};
