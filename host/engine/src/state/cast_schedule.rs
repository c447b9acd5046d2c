//! The phases of a run's casts that are still to come, and the switches that were made.

use altgrad_run_folder::record::CastSwitch;

use super::TrainState;
use crate::quant::QuantContext;

/// The casts of a phase, and the rule by which the optimizer updates each parameter in it.
pub struct WaitingCasts {
    /// The casts.
    pub quant: QuantContext,
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

    /// True if an entry has not taken effect yet.
    #[must_use]
    pub fn is_waiting(&self, entry: usize) -> bool {
        self.waiting.get(entry).is_some_and(Option::is_some)
    }
}

impl TrainState {
    /// Applies the casts of a waiting entry. Parameters and states of the optimizer stay as they are.
    pub fn switch_casts(&mut self, switch: CastSwitch) {
        let Some(waiting) = self.schedule.waiting.get_mut(switch.entry).and_then(Option::take) else {
            return;
        };
        let WaitingCasts { mut quant, rules } = waiting;
        quant.take_over(&self.quant);
        quant.take_observation_of(&mut self.quant);
        self.quant = quant;
        self.optimizer.set_rules(rules);
        self.meter.forget_codes();
        self.schedule.switches.push(switch);
    }
}
