//! The results of a step's passes on the host: the inputs of its decisions and of its metrics.

use std::time::Duration;

use super::{fidelity::Agreement, gradients::GradientSums};
use crate::{
    curvature::Curvature,
    fused_ops::attention::AttentionStats,
    quant::{QuantPlan, QuantStats, Scaling, SiteHistogram, TensorQuantizer, observe::SiteObservation},
};

/// The results of a step's passes.
#[derive(Debug)]
pub struct StepOutputs {
    /// Mean loss over the micro-batches, nats per token.
    pub loss: f64,
    /// Sums of each parameter's gradient, before clipping.
    pub moments: Vec<GradientSums>,
    /// The statistics of each site of the quantizer; `None` where it rounded nothing.
    pub rounding: Vec<Option<QuantStats>>,
    /// The agreement of each parameter's gradient with its shadow, on shadow steps.
    pub agreement: Option<Vec<Agreement>>,
    /// The distribution of the values that each site rounded, on steps that collect them.
    pub distributions: Vec<SiteHistogram>,
    /// The attention of each layer, by the parameter of its queries, keys and values, on steps that measure it; else
    /// empty.
    pub attention: Vec<(usize, AttentionStats)>,
    /// The observation of each observed site, on steps that observe; else empty.
    pub observed: Vec<Option<SiteObservation>>,
    /// The curvature of the loss, on steps that measure it.
    pub curvature: Option<Curvature>,
    /// The time of the passes before the training's own: those for the curvature and the observation.
    pub measuring: Duration,
}

impl StepOutputs {
    /// True if the backward pass left the range of its numbers: a gradient is not finite, or a format without a scale
    /// saturated where arithmetic with infinities would not have.
    #[must_use]
    pub fn gradients_overflowed(&self, plan: &QuantPlan) -> bool {
        let is_exposed =
            |site: &TensorQuantizer| site.role.is_gradient() && matches!(site.scaling, Scaling::None);
        let sites = plan.sites().iter().zip(&self.rounding).filter(|(site, _)| is_exposed(site));
        let saturated = sites.filter_map(|(_, seen)| *seen).any(|seen| seen.stats.overflow > 0);
        saturated || !self.moments.iter().all(GradientSums::is_finite)
    }

    /// True if the step's loss and gradients are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.moments.iter().all(GradientSums::is_finite)
    }
}
