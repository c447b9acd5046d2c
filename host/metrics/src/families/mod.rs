//! The families of metrics, a file each: a text for the reference and the definitions.
//!
//! To add a metric, add its definition here and its computation to the file of the same name in the engine's `metrics`.

pub mod closing;
pub mod codes;
pub mod dead_gradients;
pub mod fidelity;
pub mod gradients;
pub mod ranks;
pub mod rounding;
pub mod scale_regret;
pub mod speed;
pub mod training;
pub mod ulp_from_init;
pub mod update_distances;
pub mod updates;
pub mod weights;

use crate::definition::MetricDefinition;

/// A family: metrics that one file of the engine computes.
#[derive(Debug)]
pub struct FamilyDefinition {
    /// Heading in the reference.
    pub title: &'static str,
    /// What its metrics have in common, for the reference.
    pub text: &'static str,
    /// Its definitions, in the order of the reference.
    pub metrics: &'static [&'static MetricDefinition],
}

/// The families, in the order in which a run announces their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Loss, gradient norm, learning rate.
    Training,
    /// Gradients beside unquantized ones.
    Fidelity,
    /// What rounding did to the tensors of a step.
    Rounding,
    /// Values and codes that an update changed.
    Updates,
    /// Distances of updates.
    UpdateDistances,
    /// Elements without a gradient for many steps.
    DeadGradients,
    /// Weights beside the grid.
    Weights,
    /// Signal to noise at other scales.
    ScaleRegret,
    /// Distances from the initial weights.
    UlpFromInit,
    /// Directions that matrices use.
    Ranks,
    /// Gradients by parameter.
    Gradients,
    /// How codes are used.
    Codes,
    /// Times and rates.
    Speed,
    /// What a run came to.
    Closing,
}

impl Family {
    /// All families, in their order.
    pub const ALL: [Self; 14] = [
        Self::Training,
        Self::Fidelity,
        Self::Rounding,
        Self::Updates,
        Self::UpdateDistances,
        Self::DeadGradients,
        Self::Weights,
        Self::ScaleRegret,
        Self::UlpFromInit,
        Self::Ranks,
        Self::Gradients,
        Self::Codes,
        Self::Speed,
        Self::Closing,
    ];

    /// Its definitions.
    #[must_use]
    pub fn definition(self) -> &'static FamilyDefinition {
        match self {
            Self::Training => &training::FAMILY,
            Self::Fidelity => &fidelity::FAMILY,
            Self::Rounding => &rounding::FAMILY,
            Self::Updates => &updates::FAMILY,
            Self::UpdateDistances => &update_distances::FAMILY,
            Self::DeadGradients => &dead_gradients::FAMILY,
            Self::Weights => &weights::FAMILY,
            Self::ScaleRegret => &scale_regret::FAMILY,
            Self::UlpFromInit => &ulp_from_init::FAMILY,
            Self::Ranks => &ranks::FAMILY,
            Self::Gradients => &gradients::FAMILY,
            Self::Codes => &codes::FAMILY,
            Self::Speed => &speed::FAMILY,
            Self::Closing => &closing::FAMILY,
        }
    }
}

/// Every definition, by family.
pub fn definitions() -> impl Iterator<Item = &'static MetricDefinition> {
    Family::ALL.into_iter().flat_map(|family| family.definition().metrics.iter().copied())
}

/// Defines the metrics of a family as statics, and `METRICS`, the list of all of them. A metric's comment is its
/// meaning in the reference.
macro_rules! metrics {
    ($($(#[doc = $line:literal])+ $name:ident = { $($field:ident: $value:expr,)* ..$base:expr };)+) => {
        $(
            $(#[doc = $line])+
            pub static $name: $crate::definition::MetricDefinition = $crate::definition::MetricDefinition {
                meaning: concat!($($line),+),
                $($field: $value,)*
                ..$base
            };
        )+

        /// The definitions, in the order of the reference.
        static METRICS: &[&$crate::definition::MetricDefinition] = &[$(&$name),+];
    };
}
use metrics;
