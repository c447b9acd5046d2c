//! Metrics: the computation of the definitions in `altgrad-metrics`.
//!
//! Each family has one file with its inputs and formulas, behind the trait [`MetricFamily`]. [`update_metrics`]
//! measures parameters at the optimizer's step; on a GPU `count_kernel` counts there (`device_counts`). [`names`]
//! announces the metrics of a run, [`record_step`] records those of a step.

pub mod attention;
pub mod codes;
#[cfg(feature = "gpu")]
mod count_kernel;
#[cfg(feature = "gpu")]
pub mod count_op;
pub mod curvature;
pub mod dead_gradients;
#[cfg(feature = "gpu")]
mod device_counts;
pub mod element_memory;
pub mod family;
pub mod fidelity;
pub mod gradients;
pub mod grid_ends;
mod initial_weights;
pub mod observation;
pub mod ops;
pub mod optimizer;
mod outputs;
pub mod ranks;
pub mod rounding;
pub mod scale_changes;
pub mod scale_regret;
pub mod singular;
pub mod spacings;
pub mod spectrum;
pub mod speed;
#[cfg(feature = "gpu")]
mod sums_kernel;
#[cfg(test)]
mod testing;
pub mod training;
pub mod ulp_distance;
pub mod ulp_from_init;
pub mod update_counts;
pub mod update_distances;
pub mod update_loss;
pub mod update_metrics;
pub mod update_state;
mod update_subscriber;
pub mod updates;
pub mod weights;

use std::collections::BTreeSet;

use altgrad_metrics::ValueShape;
pub use altgrad_metrics::{Histogram, MetricId, MetricKind, MetricRecord};
pub use family::{MetricFamily, MetricSetup};
pub use outputs::StepOutputs;

use crate::quant::{QuantStats, SiteHistogram};

/// The inputs of a step's metrics.
#[derive(Debug)]
pub struct StepInputs<'a> {
    /// The run.
    pub setup: MetricSetup<'a>,
    /// The results of the passes.
    pub outputs: &'a StepOutputs,
    /// The numbers of the training.
    pub training: training::TrainingScalars,
    /// The optimizer's own numbers after the step, in the order of their names.
    pub optimizer: &'a [f64],
    /// The measurements of the optimizer's step.
    pub updates: &'a update_metrics::UpdateMetrics,
    /// Training tokens of the step.
    pub tokens: u64,
    /// Time from drawing the batch to the end of the update.
    pub time: speed::StepTime,
    /// Bytes of the device's memory after the step.
    pub memory: Option<u64>,
}

impl StepInputs<'_> {
    /// False if the update spreads NaN: unchanged codes of NaN are no stall.
    fn has_finite_gradients(&self) -> bool {
        self.outputs.moments.iter().all(gradients::GradientSums::is_finite)
    }

    fn attention(&self) -> attention::AttentionInputs<'_> {
        attention::AttentionInputs { softmax: &self.outputs.attention, qk_entropy: self.updates.qk_entropy() }
    }

    /// True if gradients overflowed under the loss scale: values of gradients depend on the scale alone and are not
    /// recorded.
    fn overflowed(&self) -> bool {
        self.training.grad_norm.is_none()
    }

    fn agreement(&self) -> Option<&[fidelity::Agreement]> {
        self.outputs.agreement.as_deref().filter(|_| !self.overflowed())
    }

    /// Statistics of each place where values are rounded.
    fn rounding(&self) -> Vec<Option<QuantStats>> {
        let stats = self.outputs.rounding.iter().zip(&self.setup.sites);
        stats.map(|(stats, (role, _))| stats.filter(|_| !self.overflowed() || !role.is_gradient())).collect()
    }

    fn distributions(&self) -> &[SiteHistogram] {
        if self.overflowed() { &[] } else { &self.outputs.distributions }
    }
}

/// The families in the order in which a step's values are recorded, each with its inputs.
macro_rules! families {
    (|$step:ident| $($family:ty: $inputs:expr,)+) => {
        /// Every number and distribution that the families may record.
        fn all_ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
            [$(<$family>::ids(setup)),+].concat()
        }

        /// Records a step. A value that cannot be computed is absent.
        pub fn record_step($step: &StepInputs<'_>, record: &mut MetricRecord) {
            $(<$family>::record(&$step.setup, $inputs, record);)+
        }
    };
}

families! {
    |step|
    fidelity::FidelityFamily: step.agreement(),
    gradients::GradientsFamily: step.updates.due().parameters.then_some(step.outputs.moments.as_slice()),
    curvature::CurvatureFamily: step.outputs.curvature.as_ref(),
    rounding::RoundingFamily: &step.rounding(),
    attention::AttentionFamily: step.attention(),
    codes::CodesFamily: step.distributions(),
    observation::ObservationFamily: &step.outputs.observed,
    updates::UpdatesFamily: step.updates.updates().filter(|_| step.has_finite_gradients()),
    update_distances::UpdateDistancesFamily: step.updates.distances(),
    grid_ends::GridEndsFamily: step.updates.grid_ends(),
    scale_changes::ScaleChangesFamily: step.updates.scale_changes(),
    dead_gradients::DeadGradientsFamily: step.updates.dead_gradients(),
    weights::WeightsFamily: step.updates.weights(),
    scale_regret::ScaleRegretFamily: step.updates.regret(),
    ulp_from_init::UlpFromInitFamily: step.updates.distances_from_init(),
    ranks::RanksFamily: step.updates.ranks(),
    training::TrainingFamily: step.training,
    optimizer::OptimizerFamily: step.optimizer,
    speed::SpeedFamily: (step.tokens, step.time, step.memory),
}

/// Every metric that a run's rows may contain in any of its phases, in display order, which is that of the families'
/// definitions.
#[must_use]
pub fn names<'a>(setups: impl Iterator<Item = MetricSetup<'a>>) -> Vec<MetricId> {
    let mut ids: Vec<MetricId> = Vec::new();
    let mut known = BTreeSet::new();
    for setup in setups {
        ids.extend(recorded_ids(&setup).into_iter().filter(|id| known.insert(id.clone())));
    }
    ids.sort_by_key(|id| id.definition().family);
    ids.retain(|id| id.definition().shape == ValueShape::Number);
    ids
}

/// Every number and distribution that the run file selects.
fn recorded_ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
    let mut ids = all_ids(setup);
    ids.retain(|id| setup.records(id.definition().due));
    // Stable: within a family the order is the family's.
    ids.sort_by_key(|id| id.definition().family);
    ids
}
