//! The run's schedule of casts: the entries that a step or its record activates.

use altgrad_alerts::Alerts;
use altgrad_config::CastTrigger;
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::{events::Event, record::CastSwitch};

use super::run::Run;
use crate::{setup::RunSetup, state::TrainState};

/// The kind of the event of a switch.
const SWITCHED: &str = "casts_switched";

/// Applies the entries whose step has come. Returns the events.
pub fn switch_at(setup: &RunSetup, state: &mut TrainState, step: u64) -> Vec<Event> {
    let is_due = |trigger: CastTrigger| matches!(trigger, CastTrigger::At(at) if at <= step);
    switch(setup, state, [step, step.saturating_sub(1)], is_due)
}

/// Applies the entries whose alert was raised by the record of step `step`, from the next step on. Returns the events.
fn switch_on(setup: &RunSetup, state: &mut TrainState, alerts: &Alerts, step: u64) -> Vec<Event> {
    let is_due = |trigger: CastTrigger| matches!(trigger, CastTrigger::On(kind) if alerts.holds(kind));
    switch(setup, state, [step + 1, step], is_due)
}

/// `step` is the first step with the casts, `told` the step of the event, which is the one before: a run that resumes at `step` from
/// a checkpoint that holds the change keeps the event, and one that resumes earlier repeats both. No checkpoint is of step 0.
fn switch(
    setup: &RunSetup,
    state: &mut TrainState,
    [step, told]: [u64; 2],
    is_due: impl Fn(CastTrigger) -> bool,
) -> Vec<Event> {
    let mut events = Vec::new();
    for (entry, phase) in setup.config.quant.schedule.iter().enumerate() {
        if !is_due(phase.trigger) || !state.schedule.is_waiting(entry) {
            continue;
        }
        let trigger = phase.trigger.to_string();
        state.switch_casts(CastSwitch { entry, step, trigger: trigger.clone() });
        let text = format!(
            "from step {step} on: {}, as quant.schedule.{entry} says {trigger}",
            state.quant.summary()
        );
        let event = Event::new(told, AlertLevel::INFO, SWITCHED, text);
        events.push(Event { value: Some(step as f64), ..event });
    }
    events
}

impl Run<'_> {
    /// Applies the entries of the schedule for the beginning of a step.
    pub(super) fn switch_casts_at(&mut self, step: u64) {
        let events = switch_at(&self.setup, &mut self.state, step);
        self.tell_switches(events);
    }

    /// Applies the entries of the schedule for the record of step `step`, which the alerts processed last.
    pub(super) fn switch_casts_on_alerts(&mut self, step: u64) {
        let events = switch_on(&self.setup, &mut self.state, &self.report.alerts, step);
        self.tell_switches(events);
    }

    fn tell_switches(&mut self, events: Vec<Event>) {
        for event in events {
            self.logger.listener.mention(&format!("casts change {}", event.text));
            self.logger.log_event(event);
            // A fault of the disk is reported at the end too.
            let _ = self.write_status(altgrad_run_folder::record::RunStatus::Running);
        }
    }
}
