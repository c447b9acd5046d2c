//! The run's schedule of casts: the entries that a step or its record activates.

use altgrad_alerts::Alerts;
use altgrad_config::CastTrigger;
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::{events::Event, record::CastSwitch};

use crate::{metrics::update_metrics::UpdateMetrics, setup::RunSetup, state::TrainState};

/// The kind of the event of a switch.
const SWITCHED: &str = "casts_switched";

/// Applies the entries whose step has come. Returns the events.
pub fn switch_at(
    setup: &RunSetup,
    (state, update_metrics): (&mut TrainState, &mut UpdateMetrics),
    step: u64,
) -> Vec<Event> {
    let is_due = |trigger: CastTrigger| matches!(trigger, CastTrigger::At(at) if at <= step);
    switch(setup, (state, update_metrics), [step, step.saturating_sub(1)], is_due)
}

/// Applies the entries whose alert was raised by the record of step `step`, from the next step on. Returns the events.
pub fn switch_on(
    setup: &RunSetup,
    (state, update_metrics): (&mut TrainState, &mut UpdateMetrics),
    alerts: &Alerts,
    step: u64,
) -> Vec<Event> {
    let is_due = |trigger: CastTrigger| matches!(trigger, CastTrigger::On(kind) if alerts.holds(kind));
    switch(setup, (state, update_metrics), [step + 1, step], is_due)
}

/// `step` is the first step with the casts, `told` the step of the event, which is the one before: a run that resumes
/// at `step` from a checkpoint that holds the change keeps the event, and one that resumes earlier repeats both. No
/// checkpoint is of step 0.
fn switch(
    setup: &RunSetup,
    (state, update_metrics): (&mut TrainState, &mut UpdateMetrics),
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
        // The next codes are of other formats.
        update_metrics.forget_codes();
        let text = format!(
            "from step {step} on: {}, as quant.schedule.{entry} says {trigger}",
            state.quant.plan.summary()
        );
        let event = Event::new(told, AlertLevel::INFO, SWITCHED, text);
        events.push(Event { value: Some(step as f64), ..event });
    }
    events
}
