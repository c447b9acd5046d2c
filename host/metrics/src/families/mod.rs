//! The families of metrics, a file each: a text for the reference and the definitions.
//!
//! To add a metric, add its definition here and its computation to the file of the same name in the engine's `metrics`.

pub mod attention;
pub mod closing;
pub mod codes;
pub mod curvature;
pub mod dead_gradients;
pub mod fidelity;
pub mod gradients;
pub mod grid_ends;
mod macros;
pub mod observation;
pub mod optimizer;
pub mod ranks;
pub mod rounding;
pub mod scale_changes;
pub mod scale_regret;
pub mod speed;
pub mod training;
pub mod ulp_from_init;
pub mod update_distances;
pub mod updates;
pub mod weights;

use crate::definition::MetricDefinition;
pub use crate::{definition::FamilyDefinition, family::Family};

impl Family {
    /// Its definitions.
    #[must_use]
    pub fn definition(self) -> &'static FamilyDefinition {
        match self {
            Self::Training => &training::FAMILY,
            Self::Optimizer => &optimizer::FAMILY,
            Self::Attention => &attention::FAMILY,
            Self::Fidelity => &fidelity::FAMILY,
            Self::Curvature => &curvature::FAMILY,
            Self::Rounding => &rounding::FAMILY,
            Self::Observation => &observation::FAMILY,
            Self::Updates => &updates::FAMILY,
            Self::UpdateDistances => &update_distances::FAMILY,
            Self::GridEnds => &grid_ends::FAMILY,
            Self::ScaleChanges => &scale_changes::FAMILY,
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
