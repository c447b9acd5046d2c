//! The results of passes besides their values, which stay on the device until a step reads them.

use std::collections::BTreeMap;

#[cfg(feature = "gpu")]
use burn::tensor::Tensor;

use super::{PendingStats, SiteId, observe::SiteObservation, weight_scales::WeightScales};

/// The statistics of the rounding in some passes.
#[derive(Debug, Clone, Default)]
pub struct PassStats {
    /// Of calls, in the order of the calls.
    pub(super) stats: Vec<(SiteId, PendingStats)>,
    /// The scales of the last rounding of each weight that was rounded.
    pub(super) weight_scales: BTreeMap<SiteId, WeightScales>,
    /// The observation of each observed site, on the host, if sites were observed.
    pub observed: Option<Vec<Option<SiteObservation>>>,
}

#[cfg(feature = "gpu")]
impl PassStats {
    /// All tensors: words and sums of calls, and scales of weights.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<1>> {
        let stats = self.stats.iter().flat_map(|(_, stats)| [stats.words.clone(), stats.sums.clone()]);
        stats.chain(self.weight_scales.values().map(WeightScales::flat))
    }
}
