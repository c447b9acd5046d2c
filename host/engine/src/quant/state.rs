//! The state of rounding between steps: largest magnitudes of past steps, scales of weights, and the position of random
//! bits.

use std::{collections::BTreeMap, mem::discriminant, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::RandomKey;
use burn::tensor::Tensor;

use super::{
    CastParams, FakeQuantParams, HistogramCollector, History, LayerId, PassStats, PendingStats, QuantPlan,
    QuantStats, Role, Rotation, ScaleChange, Scaling, SiteId, WeightGrid,
    cast::{arranged_scales, cast_at},
    stats::RequestedStats,
    weight_scales::{WeightScales, stored},
};
use crate::read_back::{ReadBack, Slot, Values};

/// The state. It is plain data, and a copy is cheap: tensors are shared.
#[derive(Debug, Clone, Default)]
pub struct QuantState {
    /// The step of the next calls. Stochastic rounding draws other bits in each step.
    pub step: u64,
    /// The past of each site.
    pub(super) histories: Vec<History>,
    /// The scales of the last rounding of each weight.
    pub(super) weight_scales: BTreeMap<SiteId, WeightScales>,
    /// The statistics of the last rounding of each weight that is stored on a grid, in the order of the updates.
    pub(super) stored: Vec<(SiteId, PendingStats)>,
}

/// The rounding of a run in a phase of casts: its plan, which is shared, and its state.
#[derive(Debug, Clone)]
pub struct Quantizer {
    /// The rounded tensors.
    pub plan: Arc<QuantPlan>,
    /// The state between steps.
    pub state: QuantState,
}

impl From<QuantPlan> for Quantizer {
    fn from(plan: QuantPlan) -> Self {
        Self::new(Arc::new(plan))
    }
}

/// The statistics of a step's rounding, requested in a [`ReadBack`].
#[derive(Debug)]
pub struct RequestedRounding {
    stats: Vec<(SiteId, RequestedStats)>,
    scales: Vec<(SiteId, Slot)>,
}

impl Quantizer {
    /// The state before the first step.
    #[must_use]
    pub fn new(plan: Arc<QuantPlan>) -> Self {
        let histories = vec![History::default(); plan.sites().len()];
        Self { plan, state: QuantState { histories, ..QuantState::default() } }
    }

    /// No rounding.
    #[must_use]
    pub fn off() -> Self {
        QuantPlan::off().into()
    }

    /// Changes to the plan of another phase: the scales of the sites that both have, if they are delayed in both or
    /// static in both, keep their recorded magnitudes, and weights without master weights keep their scales. Other
    /// sites start again.
    pub fn switch_to(&mut self, plan: Arc<QuantPlan>) {
        let old = std::mem::replace(self, Self::new(plan));
        let shared = self.plan.shared_sites(&old.plan);
        for &(new, before) in &shared {
            let (site, old_site) = (&self.plan.sites()[new], &old.plan.sites()[before]);
            if discriminant(&site.scaling) == discriminant(&old_site.scaling) && site.has_history() {
                self.state.histories[new] = old.state.histories[before].clone();
            }
        }
        let new_id = |before: SiteId| shared.iter().find(|(_, old)| *old == before).map(|(new, _)| *new);
        let stored = old.state.stored.into_iter();
        self.state.stored = stored.filter_map(|(id, stats)| Some((new_id(id)?, stats))).collect();
        let scales = old.state.weight_scales.into_iter();
        self.state.weight_scales = scales.filter_map(|(id, scales)| Some((new_id(id)?, scales))).collect();
        self.state.step = old.state.step;
    }

    /// One collector per site, of sums of the powers of the values that it rounds, and of their codes if `with_codes`.
    #[must_use]
    pub fn collectors(&self, with_codes: bool) -> Vec<Arc<HistogramCollector>> {
        let codes = |codes: usize| if with_codes { codes } else { 0 };
        let sites = self.plan.sites().iter().map(|site| codes(site.format.values().codes()));
        sites.map(|codes| Arc::new(HistogramCollector::new(codes))).collect()
    }

    /// The parameters of a cast at a site of a layer.
    pub(super) fn cast_params(
        &self,
        id: SiteId,
        layer: LayerId,
        key: RandomKey,
        histogram: Option<Arc<HistogramCollector>>,
    ) -> CastParams {
        let site = &self.plan.sites()[id];
        let quant = FakeQuantParams {
            histogram,
            site: site.has_history().then_some(id),
            ..site.fake_quant_params(key, &self.state.histories[id])
        };
        let sign_key = || self.plan.sign_key(layer, site.role, self.state.step);
        let rotation = site.transform.map(|hadamard| Rotation { hadamard, key: sign_key() });
        CastParams { quant, arrangement: site.arrangement(), rotation, center: site.center }
    }

    /// The fixed scale and inverse of each site that takes them from earlier steps.
    #[cfg(feature = "gpu")]
    pub fn scales_of_history(&self) -> impl Iterator<Item = Option<[f32; 2]>> {
        self.plan.sites().iter().zip(&self.state.histories).map(|(site, history)| match site.scale(history) {
            super::ScaleSource::Fixed(pair) if site.has_history() => Some(pair),
            _ => None,
        })
    }

    /// Discards the statistics of weights that are stored on grids: the update that begins rounds them again.
    pub fn begin_update(&mut self) {
        self.state.stored.clear();
    }

    /// A weight for use at `step`: without master weights rounded to the grid of its format, at its last scales or at
    /// new ones by its scaling, else unchanged. Shape: `[out, in]`.
    #[must_use]
    pub fn round_to_grid(&mut self, layer: LayerId, value: Tensor<2>, step: u64) -> Tensor<2> {
        let Some((id, site)) =
            self.plan.site(layer, Role::Weight).filter(|_| self.plan.is_stored_on_grid(layer))
        else {
            return value;
        };
        let wanted = arranged_scales(&value, site, &self.state.histories[id]);
        let scales = match (site.scaling, self.state.weight_scales.get(&id)) {
            (Scaling::Stored { change: ScaleChange::Never, .. }, Some(kept)) => kept.pairs.clone(),
            (Scaling::Stored { change: ScaleChange::Hysteresis, rule }, Some(kept)) => {
                stored(kept.pairs.clone(), wanted, rule.scaling.margin)
            }
            _ => wanted,
        };
        let params = self.cast_params(id, 0, self.plan.key(id, step, 0), None);
        let rounded = cast_at(value, scales, params);
        self.state.weight_scales.insert(id, WeightScales::new(rounded.scales));
        self.state.stored.push((id, rounded.stats));
        rounded.values
    }

    /// Requests the statistics of passes and of [`Self::round_to_grid`], and the scales of weights, which replace the
    /// last ones.
    #[must_use]
    pub fn request(&mut self, pass: PassStats, read_back: &mut ReadBack) -> RequestedRounding {
        let PassStats { stats, weight_scales, .. } = pass;
        self.state.weight_scales.extend(weight_scales);
        let all = stats.into_iter().chain(self.state.stored.iter().cloned());
        let stats = all.map(|(id, stats)| (id, stats.request(read_back))).collect();
        RequestedRounding { stats, scales: self.request_scales(read_back) }
    }

    /// The statistics of each site: one entry per site, `None` where nothing was rounded. Stores the scales.
    ///
    /// # Errors
    /// A call or the device failed. A failed call is returned first.
    pub fn read(
        &mut self,
        requested: &RequestedRounding,
        values: &Result<Values, Diagnostic>,
    ) -> Result<Vec<Option<QuantStats>>, Diagnostic> {
        self.plan.check()?;
        let values = values.as_ref().map_err(Clone::clone)?;
        let sites = self.plan.sites();
        let mut all: Vec<Option<QuantStats>> = vec![None; sites.len()];
        for (id, requested) in &requested.stats {
            all[*id].get_or_insert_default().merge(&requested.read(values)?);
        }
        for ((site, history), stats) in sites.iter().zip(&self.state.histories).zip(&mut all) {
            if let Some(stats) = stats {
                stats.scale = site.scale_for(stats.stats.amax, history);
            }
        }
        self.read_scales(&requested.scales, values)?;
        Ok(all)
    }

    /// Records the largest magnitudes of a training step, for the scales of later steps.
    pub fn record_amax(&mut self, stats: &[Option<QuantStats>]) {
        let sites = self.plan.sites().iter().zip(&mut self.state.histories);
        for ((site, history), stats) in sites.zip(stats) {
            if let Some(stats) = stats {
                site.record_amax(stats, history);
            }
        }
    }

    fn request_scales(&self, read_back: &mut ReadBack) -> Vec<(SiteId, Slot)> {
        let unread = self.state.weight_scales.iter().filter(|(_, scales)| scales.read.is_none());
        unread.map(|(id, scales)| (*id, read_back.request(scales.flat()))).collect()
    }

    fn read_scales(&mut self, requested: &[(SiteId, Slot)], values: &Values) -> Result<(), Diagnostic> {
        for (id, slot) in requested {
            if let Some(scales) = self.state.weight_scales.get_mut(id) {
                scales.set_read(values.get(*slot)?);
            }
        }
        Ok(())
    }

    /// Reads the scales of all weights that were not read yet: one synchronization, or none.
    ///
    /// # Errors
    /// The device failed.
    pub fn read_weight_scales(&mut self) -> Result<(), Diagnostic> {
        let mut read_back = ReadBack::default();
        let requested = self.request_scales(&mut read_back);
        self.read_scales(&requested, &read_back.read()?)
    }
}

impl QuantState {
    /// The grid of a layer's weight of this shape as it was last rounded, if it is.
    ///
    /// # Errors
    /// The device failed: scales that no step has read are read.
    pub fn weight_grid<'a>(
        &self,
        plan: &'a QuantPlan,
        layer: LayerId,
        shape: &[usize],
    ) -> Result<Option<WeightGrid<'a>>, Diagnostic> {
        let Some(grid) = plan.future_weight_grid(layer, shape) else { return Ok(None) };
        let id = plan.site(layer, Role::Weight).map(|(id, _)| id);
        let Some(scales) = id.and_then(|id| self.weight_scales.get(&id)) else { return Ok(None) };
        Ok(Some(WeightGrid { pairs: scales.values()?, ..grid }))
    }

    /// The grid on which a weight without master weights is stored after its update.
    ///
    /// # Errors
    /// As [`Self::weight_grid`].
    pub fn stored_grid<'a>(
        &self,
        plan: &'a QuantPlan,
        layer: LayerId,
        shape: &[usize],
    ) -> Result<Option<WeightGrid<'a>>, Diagnostic> {
        if plan.is_stored_on_grid(layer) { self.weight_grid(plan, layer, shape) } else { Ok(None) }
    }
}
