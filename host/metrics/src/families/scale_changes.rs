//! Scales of weights without master weights that an update changed.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Scale changes",
    text: "Changes of scales by updates of weights without master weights. A new scale changes every weight in its \
           block, even where the code is unchanged.",
    metrics: METRICS,
};

const CHANGES: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Run, Scope::Layer],
    unit: Unit::Fraction,
    range: ValueRange::Between(0, 1),
    due: Due::Parameters,
    ..MetricDefinition::new(Family::ScaleChanges)
};

metrics! {
    /// Mean over all elements of |log2(k' / k)|, where k and k' are an element's scale before and after the update.
    SCALE_DRIFT = {
        name: "update/scale_drift",
        unit: Unit::Binades,
        range: ValueRange::AtLeast(0),
        report: ReportUse::CURVE,
        ..CHANGES
    };
    /// Fraction of elements whose scale changed: their codes belong to another grid.
    RECODED_FRAC = { name: "update/recoded_frac", ..CHANGES };
    /// Fraction of elements whose value before the update is not a value of the grid after it, so that the change of
    /// scale alone rounds it.
    RECODE_ROUNDED_FRAC = { name: "update/recode_rounded_frac", ..CHANGES };
}
