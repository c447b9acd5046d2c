//! The end of a run: the final evaluation and weights, and the closed run folder.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{AlertLevel, RunOutcome};
use altgrad_run_folder::{events::Event, folder::WEIGHTS, record::RunStatus};

use super::{
    run::Run,
    status::{self, HeldOutLoss, RunReport},
};
use crate::{
    checkpoint::{WeightsState, layout::CHECKPOINTS},
    metrics::{self, MetricRecord},
    model::weights,
};

impl Run<'_> {
    /// Evaluates, writes the final weights, and passes the final held-out loss to sinks as a row.
    pub(super) fn close(&mut self) -> Result<(), Diagnostic> {
        // The alerts of the last evaluation are not part of it: a resumed run repeats the evaluation, if it is due.
        self.before = self.step_state();
        if self.report.interrupted {
            // The evaluation may take longer than a process that is asked to end is given.
            self.checkpoint_last(None);
        }
        // As before the update of the next step.
        self.state.quant.state.step = self.report.steps;
        let mut record = MetricRecord::new(self.report.steps);
        let last = self.evaluate(&mut record)?;
        self.checkpoint_last(Some(last.mean.loss));
        self.raise_alerts(&record);
        let layout = &self.state.params.layout;
        let weights = self.state.weights()?;
        let weights_are_finite = weights.iter().flatten().all(|value| value.is_finite());
        let state = WeightsState {
            step: self.report.steps,
            data_fingerprint: self.report.data_fingerprint.clone().unwrap_or_default(),
            schedule: self.state.schedule.switches().to_vec(),
            history: self.state.quant.history(),
        };
        weights::write(&self.folder.path().join(WEIGHTS), layout, weights, Some(&state.to_toml()?))?;
        let last = self.final_held_out_loss(last)?;
        self.report.final_val = Some(last);
        let losses = [Some(last.mean.loss), self.report.final_loss];
        self.report.not_finite = !weights_are_finite || !losses.iter().flatten().all(|loss| loss.is_finite());
        // An interrupted run logs its next step in place of this row.
        if !self.report.interrupted {
            let mut row = MetricRecord::new(self.report.steps);
            metrics::training::record_evaluation(&mut row, last.mean.loss);
            self.logger.log_metrics(row);
        }
        Ok(())
    }

    /// The held-out loss of the final weights: `last`, or that of the whole split if it is requested and the user did
    /// not interrupt the run.
    fn final_held_out_loss(&self, last: HeldOutLoss) -> Result<HeldOutLoss, Diagnostic> {
        let kind = self.setup.final_evaluation(self.report.tokens);
        if kind == last.kind || self.report.interrupted { Ok(last) } else { self.held_out_loss(kind) }
    }

    /// The fault of an interrupted run whose last step has no checkpoint: its numbers were not finite.
    fn unwritten(&self) -> Option<Diagnostic> {
        let (steps, last) = (self.report.steps, self.checkpointer.last());
        // The state before the first step follows from the run file.
        if !self.report.interrupted || steps == 0 || last.is_some_and(|(step, _)| step == steps) {
            return None;
        }
        let kept =
            last.map_or("there is none".to_string(), |(step, _)| format!("the last one is after {step}"));
        let message = format!("the run was interrupted after {steps} steps without a checkpoint: {kept}");
        Some(Diagnostic::run(message).at(self.folder.path().join(CHECKPOINTS).display()).hint(
            "no checkpoint is written while loss or gradients are not finite; `--resume` repeats the steps after the last one",
        ))
    }

    /// Closes the run folder for any outcome of the run.
    pub(super) fn end(mut self, result: Result<(), Diagnostic>) -> Result<RunReport, Diagnostic> {
        let is_there = self.folder.path().is_dir();
        if result.is_err() && is_there {
            self.checkpoint_last(None);
        }
        self.logger.log_events(self.checkpointer.wait());
        self.report.checkpoint = self.checkpointer.last().map(|(_, path)| path.to_path_buf());
        let missing = self.checkpointer.fault().cloned().or_else(|| self.unwritten());
        self.report.checkpoint_failed = missing.is_some();
        let half_updated = self.state.half_updated.then_some(self.report.steps);
        let with_checkpoint = |error| status::with_checkpoint(error, &self.checkpointer, half_updated);
        // Without the folder there is no checkpoint either.
        let result = if is_there { result.map_err(with_checkpoint) } else { result };
        self.logger.listener.finish();
        let (outcome, status) = match &result {
            Err(error) => (RunOutcome::FAILED, RunStatus::from(error)),
            Ok(()) if self.report.interrupted => (RunOutcome::INTERRUPTED, RunStatus::Interrupted),
            Ok(()) => (RunOutcome::COMPLETED, RunStatus::Completed),
        };
        if let Err(error) = &result {
            let event = Event::new(self.report.steps, AlertLevel::ERROR, "failed", &error.message);
            self.logger.log_event(Event { place: error.place.clone(), ..event });
        }
        let Self { setup, state, folder, logger, mut report, .. } = self;
        let (sinks, faults) = logger.finish(report.steps, &report.summary(), outcome);
        report.sinks = sinks;
        report.faults.splice(0..0, faults);
        report.faults.extend(missing);
        let written = status::write((&setup, &state), &folder, status, &report, result.as_ref().err());
        // The first fault is reported: a full disk causes several.
        result?;
        report.faults.extend(written.err());
        Ok(report)
    }
}
