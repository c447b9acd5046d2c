//! The results of passes besides their values, which stay on the device until a step reads them.

use std::collections::BTreeMap;

use super::{PendingStats, SiteId, observe::SiteObservation, weight_scales::WeightScales};

/// The statistics of the rounding in some passes.
#[derive(Debug, Default)]
pub struct PassStats {
    /// Of calls, in the order of the calls.
    pub(super) stats: Vec<(SiteId, PendingStats)>,
    /// The scales of the last rounding of each weight that was rounded.
    pub(super) weight_scales: BTreeMap<SiteId, WeightScales>,
    /// The observation of each observed site, on the host, if sites were observed.
    pub observed: Option<Vec<Option<SiteObservation>>>,
}
