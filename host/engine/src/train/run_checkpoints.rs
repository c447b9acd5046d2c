//! The checkpoints during training: the conditions for each.

use altgrad_base::{diagnostic::Diagnostic, interrupt};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;

use super::{run::Run, step_state::StepState};
use crate::checkpoint::{CheckpointKind, Snapshot, StateTensors};

impl Run<'_> {
    /// A checkpoint before step `step`, if one is due or SIGUSR1 requested one. None while numbers are not finite: the
    /// last finite state is kept, and a request waits.
    pub(super) fn checkpoint_if_due(&mut self, step: u64, evaluated: Option<f64>) {
        self.logger.log_events(self.checkpointer.poll());
        let best = self.report.alerts.best().map(|best| best.loss);
        let better = evaluated.is_some_and(|loss| best.is_none_or(|best| loss < best));
        if self.non_finite.is_active() {
            return;
        }
        let due = self.checkpointer.is_due(step) || better && self.checkpointer.keeps_best();
        let fresh = step > 0 && self.checkpointer.lacks(step, evaluated);
        // Reading a request clears it, so it is read only if a checkpoint can be written.
        let wanted = fresh && (interrupt::checkpoint_requested() || due);
        if wanted {
            self.checkpoint_now(CheckpointKind::Step, evaluated);
        }
    }

    pub(super) fn checkpoint_now(&mut self, kind: CheckpointKind, val_loss: Option<f64>) {
        match StateTensors::of(&self.state, &self.update_metrics) {
            Ok(tensors) => self.checkpoint(kind, val_loss, self.before.clone(), tensors),
            Err(fault) => self.log_failed_checkpoint(self.before.step, fault),
        }
    }

    fn log_failed_checkpoint(&mut self, step: u64, fault: Diagnostic) {
        self.logger.log_alert(Event::new(step, AlertLevel::ERROR, "checkpoint_failed", fault.message));
    }

    pub(super) fn checkpoint(
        &mut self,
        kind: CheckpointKind,
        val_loss: Option<f64>,
        before: StepState,
        tensors: StateTensors,
    ) {
        if kind == CheckpointKind::Anomaly && !self.checkpointer.keeps_anomaly() {
            return;
        }
        let StepState { step, carried, alerts, totals } = before;
        let carried = match carried.save() {
            Ok(carried) => carried,
            Err(fault) => return self.log_failed_checkpoint(step, fault),
        };
        let resumes = self.report.resumes.clone();
        let snapshot = Snapshot { kind, step, val_loss, tensors, carried, alerts, totals, resumes };
        let events = self.checkpointer.save(snapshot, self.logger.request_states());
        self.logger.log_events(events);
    }

    /// The run's last checkpoint, if this step has none with this loss and its state should be kept.
    pub(super) fn checkpoint_last(&mut self, val_loss: Option<f64>) {
        self.logger.log_events(self.checkpointer.wait());
        let sound = !self.non_finite.is_active() && !self.state.half_updated;
        let step = self.before.step;
        let fresh = step > 0 && self.checkpointer.lacks(step, val_loss);
        if sound && fresh {
            self.checkpoint_now(CheckpointKind::Step, val_loss);
            self.logger.log_events(self.checkpointer.wait());
        }
    }
}
