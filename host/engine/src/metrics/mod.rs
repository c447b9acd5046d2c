//! Metrics: the computation of the definitions in `altgrad-metrics`.
//!
//! Each family has one file with its inputs and formulas, behind the trait [`MetricFamily`]. [`update_metrics`] measures
//! parameters at the optimizer's step; on a GPU `count_kernel` counts there. [`names`] announces the metrics of a run, [`record_step`] records those of a step.

pub mod attention;
pub mod codes;
#[cfg(feature = "gpu")]
mod count_kernel;
#[cfg(feature = "gpu")]
pub mod count_op;
pub mod curvature;
pub mod dead_gradients;
pub mod element_memory;
pub mod family;
pub mod fidelity;
pub mod gradients;
pub mod grid_ends;
mod initial_weights;
pub mod observation;
pub mod ops;
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
pub mod training;
pub mod ulp_distance;
pub mod ulp_from_init;
pub mod update_counts;
pub mod update_distances;
pub mod update_loss;
pub mod update_metrics;
pub mod update_state;
pub mod updates;
pub mod weights;

use std::{collections::BTreeSet, time::Duration};

use altgrad_metrics::Shape;
pub use altgrad_metrics::{Histogram, MetricId, MetricKind, MetricRecord};
pub use family::{MetricFamily, MetricSetup};

use crate::cpu_ops::attention::AttentionStats;
use crate::curvature::Curvature;
use crate::quant::{QuantStats, SiteHistogram, observe::SeenSite};

/// The inputs of a step's metrics.
#[derive(Debug)]
pub struct StepInputs<'a> {
    /// The run.
    pub setup: MetricSetup<'a>,
    /// The numbers of the training.
    pub training: training::Step,
    /// Sums of each parameter's gradient.
    pub moments: &'a [gradients::Moments],
    /// The agreement of each parameter's gradient with its shadow, on shadow steps.
    pub agreement: Option<&'a [fidelity::Agreement]>,
    /// The curvature of the loss, on the steps that measure it.
    pub curvature: Option<&'a Curvature>,
    /// Statistics of each place where values are rounded.
    pub seen: &'a [Option<QuantStats>],
    /// Distributions of each such place, on the steps that measure them; else empty.
    pub distributions: &'a [SiteHistogram],
    /// The observation of each observed site, on the steps that observe; else empty.
    pub observed: &'a [Option<SeenSite>],
    /// The attention of each layer, on the steps that measure it; else empty.
    pub attention: &'a [(usize, AttentionStats)],
    /// The measurements of the optimizer's step.
    pub updates: &'a update_metrics::UpdateMetrics,
    /// Training tokens of the step.
    pub tokens: u64,
    /// Time from drawing the batch to the end of the update.
    pub elapsed: Duration,
}

impl StepInputs<'_> {
    fn attention(&self) -> attention::Measured<'_> {
        attention::Measured { softmax: self.attention, qk_entropy: self.updates.qk_entropy() }
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
    fidelity::FidelityFamily: step.agreement,
    gradients::GradientsFamily: step.updates.due().parameters.then_some(step.moments),
    curvature::CurvatureFamily: step.curvature,
    rounding::RoundingFamily: step.seen,
    attention::AttentionFamily: step.attention(),
    codes::CodesFamily: step.distributions,
    observation::ObservationFamily: step.observed,
    updates::UpdatesFamily: step.updates.updates(),
    update_distances::UpdateDistancesFamily: step.updates.distances(),
    grid_ends::GridEndsFamily: step.updates.updates(),
    scale_changes::ScaleChangesFamily: step.updates.scale_changes(),
    dead_gradients::DeadGradientsFamily: step.updates.dead_gradients(),
    weights::WeightsFamily: step.updates.weights(),
    scale_regret::ScaleRegretFamily: step.updates.regret(),
    ulp_from_init::UlpFromInitFamily: step.updates.distances_from_init(),
    ranks::RanksFamily: step.updates.ranks(),
    training::TrainingFamily: step.training,
    speed::SpeedFamily: (step.tokens, step.elapsed),
}

/// Every metric that a run's rows may contain in any of its phases, in display order, which is that of the families' definitions.
#[must_use]
pub fn names<'a>(setups: impl Iterator<Item = MetricSetup<'a>>) -> Vec<MetricId> {
    let mut ids: Vec<MetricId> = Vec::new();
    let mut known = BTreeSet::new();
    for setup in setups {
        ids.extend(recorded_ids(&setup).into_iter().filter(|id| known.insert(id.clone())));
    }
    ids.sort_by_key(|id| id.definition().family);
    ids.retain(|id| id.definition().shape == Shape::Number);
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
