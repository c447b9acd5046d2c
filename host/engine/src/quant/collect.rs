//! The statistics and histograms of a step, collected from the calls of its passes.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Gradients as Tape;

use super::{
    HistogramCollector, PendingStats, QuantContext, QuantStats, SiteHistogram, SiteId, context::StatsSource,
    stats::RequestedStats,
};
use crate::read_back::{ReadBack, Slot, Values};

impl QuantContext {
    /// Collects the distribution of the values that each site rounds, from now on: sums of their powers, and their codes if
    /// `with_codes`.
    pub fn start_histograms(&mut self, with_codes: bool) {
        let codes = self.sites.iter().map(|site| if with_codes { site.format.values().codes() } else { 0 });
        self.histograms = codes.map(|codes| Arc::new(HistogramCollector::new(codes))).collect();
    }

    /// Stops collecting histograms and returns them: one per site, none if they were not collected. They are complete after the
    /// statistics have been read.
    ///
    /// # Errors
    /// The device failed.
    pub fn take_histograms(&mut self) -> Result<Vec<SiteHistogram>, Diagnostic> {
        std::mem::take(&mut self.histograms).iter().map(|collector| collector.histogram()).collect()
    }

    pub(super) fn push_pending(&self, site: SiteId, source: StatsSource) {
        self.pending.lock().push((site, source));
    }

    /// Collects the statistics of rounded gradients from `tape`.
    pub fn collect_gradient_stats(&self, tape: &Tape) {
        self.collect_observed_gradients(tape);
        for (_, source) in self.pending.lock().iter_mut() {
            if let StatsSource::AfterBackward(gradient) = source
                && let Some(stats) = gradient.read(tape)
            {
                *source = StatsSource::Ready(stats);
            }
        }
    }

    /// Requests all statistics since the last request, those of passes and of [`Self::round_to_grid`], and the scales of
    /// weights.
    #[must_use]
    pub fn request_stats(&self, read_back: &mut ReadBack) -> RequestedStep {
        let grid_stats = std::mem::take(&mut *self.grid_stats.lock());
        self.read_grid_stats.lock().clone_from(&grid_stats);
        let mut stats = self.request_pass_stats(read_back);
        stats.extend(grid_stats.into_iter().map(|(id, stats)| (id, stats.request(read_back))));
        RequestedStep { stats, scales: self.request_scales(read_back) }
    }

    /// Keeps the statistics of weights that the last reading took, for a step without an update: the next one reads them again.
    pub fn keep_grid_stats(&self) {
        *self.grid_stats.lock() = std::mem::take(&mut *self.read_grid_stats.lock());
    }

    fn request_pass_stats(&self, read_back: &mut ReadBack) -> Vec<(SiteId, RequestedStats)> {
        let pending = std::mem::take(&mut *self.pending.lock());
        let ready = pending.into_iter().filter_map(|(id, source)| match source {
            StatsSource::Ready(stats) => Some((id, stats)),
            StatsSource::AfterBackward(_) => None,
        });
        ready.map(|(id, stats): (SiteId, PendingStats)| (id, stats.request(read_back))).collect()
    }

    /// The statistics of each site: one entry per site, `None` where nothing was rounded. Keeps the scales.
    ///
    /// # Errors
    /// A call or the device failed. A failed call is returned first.
    pub fn read_stats(
        &self,
        requested: &RequestedStep,
        values: &Result<Values, Diagnostic>,
    ) -> Result<Vec<Option<QuantStats>>, Diagnostic> {
        self.sites.iter().find_map(|site| site.format.take_fault()).map_or(Ok(()), Err)?;
        let values = values.as_ref().map_err(Clone::clone)?;
        let mut sites: Vec<Option<QuantStats>> = vec![None; self.sites.len()];
        for (id, requested) in &requested.stats {
            sites[*id].get_or_insert_default().merge(&requested.read(values)?);
        }
        for (site, seen) in self.sites.iter().zip(&mut sites) {
            if let Some(seen) = seen {
                seen.scale = site.scale_for(seen.stats.amax);
            }
        }
        self.read_scales(&requested.scales, values)?;
        Ok(sites)
    }

    /// Requests and reads the statistics of passes: one synchronisation.
    ///
    /// # Errors
    /// As [`Self::read_stats`].
    pub fn read_pass_stats(&self) -> Result<Vec<Option<QuantStats>>, Diagnostic> {
        let mut read_back = ReadBack::default();
        let requested = RequestedStep { stats: self.request_pass_stats(&mut read_back), scales: Vec::new() };
        self.read_stats(&requested, &read_back.read())
    }
}

/// The rounding statistics of a step that are requested in a [`ReadBack`].
#[derive(Debug)]
pub struct RequestedStep {
    stats: Vec<(SiteId, RequestedStats)>,
    scales: Vec<(SiteId, Slot)>,
}
