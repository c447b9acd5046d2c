//! Use of a format's codes, and distribution of rounded values.

use super::macros::metrics;
use crate::{
    alert_kind::AlertKind,
    definition::{
        AlertDefinition, Condition, Due, FamilyDefinition, Index, MetricDefinition, Scope, Unit, ValueRange,
        ValueShape,
    },
    family::Family,
    report_use::ReportUse,
    role::Role,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Codes",
    text: "The codes that rounding produced, for formats of at most 8 bits; `kurtosis` exists for all formats. A role has a value \
           over the run if all its layers have one format. A NaN has no code and is not counted.",
    metrics: METRICS,
};

const CODES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Role, Scope::RoleAndLayer],
    due: Due::Distributions,
    ..MetricDefinition::new(Family::Codes)
};

metrics! {
    /// Fourth central moment over squared variance of the elements before rounding; 3 for a Gaussian.
    KURTOSIS = {
        name: "quant/kurtosis",
        range: ValueRange::AtLeast(1),
        scopes: &[Scope::RoleAndLayer],
        due: Due::Kurtosis,
        alerts: &[&KURTOSIS_ALERT],
        ..CODES
    };
    /// Entropy of the codes.
    CODE_ENTROPY = {
        name: "quant/code_entropy",
        unit: Unit::Bits,
        range: ValueRange::Between(0, 8),
        report: ReportUse { curves: &[Some(Role::Weight)], ..ReportUse::NONE },
        ..CODES
    };
    /// Fraction of the finite codes that no element uses.
    DEAD_CODES = { name: "quant/dead_codes", unit: Unit::Fraction, range: ValueRange::Between(0, 1), ..CODES };
    /// Binades from the smallest to the largest non-zero magnitude in use, over those of the format.
    DYNAMIC_RANGE_USED = {
        name: "quant/dynamic_range_used",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        ..CODES
    };
    /// Fraction of the codes in which the bit is set.
    BIT_ACTIVE = {
        name: "quant/bit_active",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        index: Some(Index::Bit),
        ..CODES
    };
    /// Elements by code.
    CODE_HIST = {
        name: "quant/code_hist",
        unit: Unit::Elements,
        range: ValueRange::AtLeast(0),
        scopes: &[Scope::RoleAndLayer],
        shape: ValueShape::Distribution,
        ..CODES
    };
}

/// Heavy tails.
pub static KURTOSIS_ALERT: AlertDefinition = AlertDefinition {
    kind: AlertKind::Kurtosis,
    condition: Condition::AboveAndGrown,
    default: 10.0,
    key_text: "Kurtosis of a rounded tensor: fourth moment over squared variance, 3 for a Gaussian. The alert also needs a \
               growth by `kurtosis_growth`.",
    finding: "is the kurtosis",
};
