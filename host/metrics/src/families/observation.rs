//! Effect that formats would have on tensors that they do not round.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, Unit, ValueRange, ValueShape},
    family::Family,
    report_use::ReportUse,
    role::Role,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Observation",
    text: "For the roles and formats of `[observe]`: tensors before any rounding, and before a transform, in all \
           micro-batches of the step, by role over all layers and by layer. The training stays bit-identical. Counts \
           include zeros, also those of masked positions of attention.",
    metrics: METRICS,
};

const OBSERVATION: MetricDefinition = MetricDefinition {
    scopes: &[Scope::Role, Scope::RoleAndLayer],
    due: Due::Observations,
    report: ReportUse { curves: &EACH_ROLE, ..ReportUse::NONE },
    ..MetricDefinition::new(Family::Observation)
};

const OF_FORMAT: MetricDefinition = MetricDefinition { by_format: true, ..OBSERVATION };

/// Curves of each role.
const EACH_ROLE: [Option<Role>; Role::ALL.len()] = {
    let mut roles = [None; Role::ALL.len()];
    let mut index = 0;
    while index < roles.len() {
        roles[index] = Some(Role::ALL[index]);
        index += 1;
    }
    roles
};

metrics! {
    /// Largest finite magnitude. Missing if all elements are zero.
    OBSERVED_AMAX = { name: "observe/amax", range: ValueRange::AtLeast(0), ..OBSERVATION };
    /// log2 of the largest over the smallest finite magnitude that is not zero: the binades that a format without block
    /// scales would have to span. Missing if all elements are zero.
    OBSERVED_RANGE = {
        name: "observe/range",
        unit: Unit::Binades,
        range: ValueRange::AtLeast(0),
        ..OBSERVATION
    };
    /// E[(x - mean)^4] / E[(x - mean)^2]^2 over finite elements; 3 for a Gaussian. By layer only, because tensors of
    /// different spread have no common kurtosis. Missing if elements differ by less than a thousandth of their mean.
    OBSERVED_KURTOSIS = {
        name: "observe/kurtosis",
        range: ValueRange::AtLeast(1),
        scopes: &[Scope::RoleAndLayer],
        report: ReportUse::NONE,
        ..OBSERVATION
    };
    /// Counts of finite elements over the largest magnitude of their block, as `observe.block` defines blocks, from -1
    /// to 1: 64 bins in each of 24 binades, and one each for smaller magnitudes, -1 and 1. Blocks of zeros do not
    /// count. `formats design` reads it.
    OBSERVED_RELATIVE = {
        name: "observe/relative",
        shape: ValueShape::Distribution,
        scopes: &[Scope::Role],
        report: ReportUse::NONE,
        ..OBSERVATION
    };
    /// Fraction of elements beyond the format's largest value, at scale 1.
    OBSERVED_OVERFLOW = {
        name: "observe/overflow_rate",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        ..OF_FORMAT
    };
    /// Elements that the format would round to zero at scale 1, as a fraction of those that are neither zero nor NaN:
    /// magnitudes up to half of its smallest value, if midpoints are the thresholds of rounding to nearest. Missing if
    /// all elements are zero.
    OBSERVED_UNDERFLOW = {
        name: "observe/underflow_rate",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        ..OF_FORMAT
    };
    /// SQNR, 10 log10(sum x^2 / sum (x_hat - x)^2), of the tensor rounded to nearest, ties to even, with the scales
    /// that `observe.block` and `observe.scaling` define. Blocks run along the contraction of the product, as in
    /// training. Missing if rounding would change nothing.
    OBSERVED_SQNR = { name: "observe/sqnr_db", unit: Unit::Decibels, ..OF_FORMAT };
    /// Share of the sum of magnitudes in elements that become zero, with the cast of `observe/sqnr_db`. Of the logit
    /// gradient with one scale, twice this share is the part of the probability of all tokens but the target that
    /// rounding zeroes. Missing if all elements are zero.
    OBSERVED_ZEROED_MASS = {
        name: "observe/zeroed_mass",
        unit: Unit::Fraction,
        range: ValueRange::Between(0, 1),
        ..OF_FORMAT
    };
}
