//! The run's schedule of casts in the step loop: switches and their events.

use altgrad_run_folder::events::Event;

use super::run::Run;
use crate::step::cast_switches::{switch_at, switch_on};

impl Run<'_> {
    /// Applies the entries of the schedule for the beginning of a step.
    pub(super) fn switch_casts_at(&mut self, step: u64) {
        let events = switch_at(&self.setup, (&mut self.state, &mut self.update_metrics), step);
        self.tell_switches(events);
    }

    /// Applies the entries of the schedule for the record of step `step`, which the alerts processed last.
    pub(super) fn switch_casts_on_alerts(&mut self, step: u64) {
        let events =
            switch_on(&self.setup, (&mut self.state, &mut self.update_metrics), &self.report.alerts, step);
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
