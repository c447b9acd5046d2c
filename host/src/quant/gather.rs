//! What rounding saw in a step, gathered from the calls of its passes: statistics in one reading, and distributions.

use std::sync::{Arc, PoisonError};

use burn::tensor::Gradients as Tape;

use super::{Distribution, Quant, Seen, SiteId, Unread, Watch, product::Probe, seen::Asked};
use crate::{
    diagnostic::Diagnostic,
    read_back::{ReadBack, Values},
};

/// Statistics that are somewhere on the device.
#[derive(Debug)]
pub(super) enum Pending {
    Here(Unread),
    AfterBackward(Probe),
}

impl Quant {
    /// From now on collects the distribution of what each site rounds.
    pub fn watch(&mut self) {
        let codes = self.sites.iter().map(|site| site.format.values().codes());
        self.watches = codes.map(|codes| Arc::new(Watch::new(codes))).collect();
    }

    /// Stops that; what came by, one entry a site, nothing if nobody watched. Complete once the statistics were read.
    pub fn take_watched(&mut self) -> Vec<Distribution> {
        std::mem::take(&mut self.watches).iter().map(|watch| watch.distribution()).collect()
    }

    pub(super) fn note(&self, site: SiteId, pending: Pending) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push((site, pending));
    }

    /// Puts the statistics of gradients, which `tape` holds, beside the others.
    pub fn collect(&self, tape: &Tape) {
        for (_, pending) in self.pending.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if let Pending::AfterBackward(probe) = pending
                && let Some(unread) = probe.read(tape)
            {
                *pending = Pending::Here(unread);
            }
        }
    }

    /// Asks for what was seen since the last time, by passes and by [`Self::settle`].
    #[must_use]
    pub fn ask(&self, read_back: &mut ReadBack) -> Vec<(SiteId, Asked)> {
        let settled = std::mem::take(&mut *self.settled.lock().unwrap_or_else(PoisonError::into_inner));
        let mut asked = self.ask_passes(read_back);
        asked.extend(settled.into_iter().map(|(id, unread)| (id, unread.ask(read_back))));
        asked
    }

    fn ask_passes(&self, read_back: &mut ReadBack) -> Vec<(SiteId, Asked)> {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let here = pending.into_iter().filter_map(|(id, pending)| match pending {
            Pending::Here(unread) => Some((id, unread)),
            Pending::AfterBackward(_) => None,
        });
        here.map(|(id, unread)| (id, unread.ask(read_back))).collect()
    }

    /// What each site saw: one entry a site, `None` where nothing came by.
    ///
    /// # Errors
    /// A call failed (that comes before what the device says of it), or the device did.
    pub fn seen(
        &self,
        asked: &[(SiteId, Asked)],
        values: &Result<Values, Diagnostic>,
    ) -> Result<Vec<Option<Seen>>, Diagnostic> {
        self.sites.iter().find_map(|site| site.format.take_fault()).map_or(Ok(()), Err)?;
        let values = values.as_ref().map_err(Clone::clone)?;
        let mut sites: Vec<Option<Seen>> = vec![None; self.sites.len()];
        for (id, asked) in asked {
            sites[*id].get_or_insert_default().merge(&asked.seen(values)?);
        }
        Ok(sites)
    }

    /// What passes saw since the last time, read alone: one synchronisation.
    ///
    /// # Errors
    /// As [`Self::seen`].
    pub fn read(&self) -> Result<Vec<Option<Seen>>, Diagnostic> {
        let mut read_back = ReadBack::default();
        let asked = self.ask_passes(&mut read_back);
        self.seen(&asked, &read_back.read())
    }
}
