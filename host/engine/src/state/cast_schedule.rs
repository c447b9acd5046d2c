//! The phases of a run's casts that are still to come, and the switches that were made.

use std::sync::Arc;

use altgrad_run_folder::record::CastSwitch;

use crate::quant::QuantPlan;

/// The casts of a phase, and the rule by which the optimizer updates each parameter in it.
pub struct WaitingCasts {
    /// The casts.
    pub plan: Arc<QuantPlan>,
    /// By parameter, in the plugin's words.
    pub rules: Vec<String>,
}

/// The schedule of a run.
#[derive(Default)]
pub struct CastSchedule {
    /// By entry; none once it was put in force.
    waiting: Vec<Option<WaitingCasts>>,
    switches: Vec<CastSwitch>,
}

impl CastSchedule {
    /// The state before the first switch.
    #[must_use]
    pub fn new(waiting: Vec<WaitingCasts>) -> Self {
        Self { waiting: waiting.into_iter().map(Some).collect(), switches: Vec::new() }
    }

    /// The switches so far, in their order.
    #[must_use]
    pub fn switches(&self) -> &[CastSwitch] {
        &self.switches
    }

    /// Removes and returns the casts of the entry that takes effect, if it waits.
    pub(super) fn take(&mut self, switch: CastSwitch) -> Option<WaitingCasts> {
        let waiting = self.waiting.get_mut(switch.entry).and_then(Option::take)?;
        self.switches.push(switch);
        Some(waiting)
    }

    /// True if an entry has not taken effect yet.
    #[must_use]
    pub fn is_waiting(&self, entry: usize) -> bool {
        self.waiting.get(entry).is_some_and(Option::is_some)
    }
}
