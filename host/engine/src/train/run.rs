//! A run, from an accepted setup to a closed run folder; the loop over steps in time order.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use altgrad_alerts::{Alert, AlertKind, Evaluation, Severity};
use altgrad_base::{diagnostic::Diagnostic, files::Disk, interrupt};
use altgrad_plugin_api::{AlertLevel, RunOutcome};
use altgrad_run_folder::{
    events::Event,
    folder::{CONFIG, RunFolder, WEIGHTS},
    record::{EvaluationKind, Progress, RunStatus},
};
use altgrad_sinks::{RunFacts, SinkSetup, Sinks};

use super::{
    non_finite::NonFiniteTracker,
    observer::RunObserver,
    run_logger::RunLogger,
    status::{self, HeldOutLoss, RunReport},
    step,
    step_state::StepState,
};
use crate::{
    checkpoint::{CheckpointKind, Checkpointer, RunIdentity, Start, StateTensors},
    debug::provenance,
    metrics::{self, MetricRecord},
    model::weights,
    setup::{ReadyRun, RunSetup},
    state::{TrainState, mean_loss},
};

/// A run in progress.
pub(super) struct Run<'a> {
    pub(super) setup: RunSetup,
    pub(super) state: TrainState,
    folder: RunFolder,
    pub(super) checkpointer: Checkpointer,
    pub(super) logger: RunLogger<'a>,
    pub(super) report: RunReport,
    /// The start of this process, and the time that earlier ones ran.
    clock: (Instant, Duration),
    /// The state between the last two steps, except tensors.
    pub(super) before: StepState,
    /// Steps in a row, up to the last one, that are not finite.
    pub(super) non_finite: NonFiniteTracker,
}

/// Trains a run from `start` on, up to step `stop_after`, into a folder that is empty, not there, or holds the run's beginning.
///
/// # Errors
/// The run folder cannot be made or a sink opened (a new run then leaves no files), or a plugin or the device failed in a step
/// (`run.json` records it, and the message names the checkpoint).
pub fn run(
    ready: ReadyRun,
    folder: &Path,
    mut start: Start,
    stop_after: Option<u64>,
    observer: &mut dyn RunObserver,
) -> Result<RunReport, Diagnostic> {
    let ReadyRun { setup, state, sinks } = ready;
    let identity = start.identity.take().map_or_else(|| RunIdentity::of(&setup), Ok)?;
    let folder = start.folder.take().map_or_else(|| RunFolder::claim(folder), Ok)?;
    if let Some(warning) = setup.scale_warning.as_ref().filter(|_| start.from.is_none()) {
        tracing::warn!("{warning}");
    }
    observer.claimed(&folder);
    let mut report = RunReport::starting(&start, setup.config.alerts, setup.facts());
    report.started_unix_s = status::started(&folder);
    let sinks = match open((&setup, &state), sinks, &folder, &start, &report) {
        Ok(sinks) => sinks,
        Err(diagnostic) => {
            folder.discard();
            return Err(diagnostic);
        }
    };
    observer.begun();
    let resumed = start.sinks.is_some().then_some(start.step);
    let logger = RunLogger::open(sinks, folder.path(), resumed, observer);
    let from = start.from.clone().map(|path| (start.step, path));
    let section = setup.config.checkpoint;
    let checkpointer = Checkpointer::new(folder.path(), section, identity, Disk::default(), from);
    let clock = (Instant::now(), start.clock());
    let before = StepState::new(&state, &report, start.clock());
    let non_finite = NonFiniteTracker::default();
    let mut run = Run { setup, state, folder, checkpointer, logger, report, clock, before, non_finite };
    run.logger.log_events(start.event().into_iter().collect());
    let result = run.steps(stop_after).and_then(|()| run.close());
    run.end(result)
}

impl Run<'_> {
    /// The step loop.
    fn steps(&mut self, stop_after: Option<u64>) -> Result<(), Diagnostic> {
        let last = self.setup.config.train.max_steps.min(stop_after.unwrap_or(u64::MAX));
        for step in self.report.steps..last {
            let mut record = MetricRecord::new(step);
            self.switch_casts_at(step);
            self.state.quant.begin_step(step);
            self.before = self.step_state();
            // Evaluation comes before the update: step 0 evaluates the initial weights.
            let evaluated = self.evaluate_if_due(step, &mut record)?;
            self.checkpoint_if_due(step, evaluated);

            let started = Instant::now();
            let (grads, reading) = step::compute_gradients(&self.setup, &mut self.state, step, None)?;
            let elapsed = started.elapsed().saturating_sub(reading.measuring);
            if reading.is_finite() || step::overflowed(&self.state, &reading) {
                self.non_finite.clear();
            } else if !self.non_finite.is_active() {
                // The update spreads non-finite values over all parameters, so their origin is searched before it.
                let origin = provenance::find(&self.setup, &self.state, step)?;
                let keeps = self.setup.config.checkpoint.on_anomaly;
                let tensors = keeps.then(|| StateTensors::of(&self.state)).transpose()?;
                self.non_finite.begin(origin, tensors.map(|tensors| (self.before.clone(), tensors)));
            }
            self.logger.log_events(self.checkpointer.bound_loss(step + 1));
            let started = Instant::now();
            let update = step::apply_update(&self.setup, &mut self.state, step, grads, &reading)?;
            let elapsed = elapsed + started.elapsed();
            self.logger.log_events(update.event(step).into_iter().collect());
            step::record_metrics(&mut record, &self.setup, &self.state, (&reading, &update), elapsed);

            self.report.add_step(reading.loss, self.setup.tokens_per_step(), elapsed);
            let diverged = self.raise_alerts(&record);
            // The evaluation after the last step uses the casts that it trained with.
            if step + 1 < self.setup.config.train.max_steps {
                self.switch_casts_on_alerts(step);
            }
            self.logger.log_metrics(record);
            if diverged {
                self.before = self.step_state();
                self.checkpoint_now(CheckpointKind::Anomaly, None);
            }
            self.show_progress(last);
            self.look_after_folder()?;
            self.logger.log_sink_faults(step);
            if evaluated.is_some() {
                self.report.sinks = self.logger.counts();
                // A fault here is reported at the end too, where the file is written for the last time.
                let _ = self.write_status(RunStatus::Running);
            }
            if self.report.alerts.run_is_lost() {
                return Err(self.non_finite.lost(step, self.setup.config.alerts.nan_patience));
            }
            if interrupt::requested() {
                self.report.interrupted = true;
                let event = Event::new(step, AlertLevel::INFO, "interrupted", "the user stopped the run");
                self.logger.log_event(event);
                break;
            }
        }
        Ok(())
    }

    /// A run whose folder is renamed or deleted ends: others may be about to use either path. A renamed folder is closed
    /// normally.
    fn look_after_folder(&mut self) -> Result<(), Diagnostic> {
        let looked = self.folder.look();
        if looked.is_err() {
            self.before = self.step_state();
            let events = self.checkpointer.move_to(self.folder.path());
            self.logger.log_events(events);
        }
        looked
    }

    /// The present state of the run, except tensors.
    fn step_state(&self) -> StepState {
        StepState::new(&self.state, &self.report, self.elapsed())
    }

    /// Time since the run's start, pauses left out.
    fn elapsed(&self) -> Duration {
        self.clock.1 + self.clock.0.elapsed()
    }

    /// Held-out loss with the weights that training uses.
    fn held_out_loss(&self, kind: EvaluationKind) -> Result<HeldOutLoss, Diagnostic> {
        let TrainState { params, quant, .. } = &self.state;
        let mean = mean_loss(&self.setup.model.gpt, params, quant, self.setup.held_out(kind))?;
        Ok(HeldOutLoss { kind, mean })
    }

    /// An evaluation like all others during the run, so that alerts and the best evaluation compare equal kinds.
    fn evaluate(&mut self, record: &mut MetricRecord) -> Result<HeldOutLoss, Diagnostic> {
        let held_out = self.held_out_loss(self.setup.evaluation())?;
        metrics::training::record_evaluation(record, held_out.mean.loss);
        self.report.last_val = Some(Evaluation { step: record.step, loss: held_out.mean.loss });
        Ok(held_out)
    }

    fn evaluate_if_due(&mut self, step: u64, record: &mut MetricRecord) -> Result<Option<f64>, Diagnostic> {
        let due = step::is_due(self.setup.config.train.eval_interval, step);
        due.then(|| Ok(self.evaluate(record)?.mean.loss)).transpose()
    }

    fn show_progress(&mut self, last: u64) {
        let report = &self.report;
        let progress = Progress {
            status: RunStatus::Running,
            step: report.steps,
            steps: last,
            loss: report.final_loss,
            validation_loss: report.last_val.map(|last| last.loss),
            validation_step: report.last_val.map(|last| last.step),
            tokens_per_s: report.tokens_per_s(),
            elapsed_s: self.elapsed().as_secs_f64(),
            training_s: report.training_time.as_secs_f64(),
            error: None,
        };
        self.logger.observer.step(&progress);
    }

    /// Raises the alerts of a record. Returns whether the run has just been found to diverge.
    fn raise_alerts(&mut self, record: &MetricRecord) -> bool {
        let known = self.report.alerts.best();
        let mut diverged = false;
        for alert in self.report.alerts.see(record, self.elapsed()) {
            if alert.kind.severity() == Severity::Error {
                diverged |= self.raise_anomaly(alert);
            } else {
                self.logger.log_alert(alert.into());
            }
        }
        if let Some(best) = self.report.alerts.best().filter(|best| known != Some(*best)) {
            let text = format!("the best validation loss so far: {:.4} nats/token", best.loss);
            let event = Event::new(best.step, AlertLevel::INFO, "best", text);
            self.logger.log_event(Event { value: Some(best.loss), ..event });
        }
        diverged && !self.non_finite.is_active()
    }

    /// Handles a failure whose state should be kept for inspection: the alert names the first non-finite tensor, if there is
    /// one, and the state before it is kept.
    fn raise_anomaly(&mut self, alert: Alert) -> bool {
        let not_finite = matches!(alert.kind, AlertKind::NanLoss | AlertKind::NanGrad);
        let mut event = Event::from(alert);
        if not_finite && let Some((step, first)) = self.non_finite.first() {
            event.text = format!("{}; it began at step {step} in {first}", event.text);
            event.place = Some(first.place.to_string());
        }
        self.logger.log_alert(event);
        if not_finite && let Some((before, tensors)) = self.non_finite.take_state() {
            self.checkpoint(CheckpointKind::Anomaly, None, before, tensors);
        }
        !not_finite
    }

    /// Evaluates, writes the final weights, and passes the final held-out loss to sinks as a row.
    fn close(&mut self) -> Result<(), Diagnostic> {
        // The alerts of the last evaluation are not part of it: a resumed run repeats the evaluation, if it is due.
        self.before = self.step_state();
        if self.report.interrupted {
            // The evaluation may take longer than a process that is asked to end is given.
            self.checkpoint_last(None);
        }
        // As before the update of the next step.
        self.state.quant.begin_step(self.report.steps);
        let mut record = MetricRecord::new(self.report.steps);
        let last = self.evaluate(&mut record)?;
        self.checkpoint_last(Some(last.mean.loss));
        self.raise_alerts(&record);
        let layout = &self.state.params.layout;
        weights::write(&self.folder.path().join(WEIGHTS), layout, &self.state.weights()?)?;
        let last = self.final_held_out_loss(last)?;
        self.report.final_val = Some(last);
        // An interrupted run logs its next step in place of this row.
        if !self.report.interrupted {
            let mut row = MetricRecord::new(self.report.steps);
            metrics::training::record_evaluation(&mut row, last.mean.loss);
            self.logger.log_metrics(row);
        }
        Ok(())
    }

    /// The held-out loss of the final weights: `last`, or that of the whole split if it is requested and the user did not
    /// interrupt the run.
    fn final_held_out_loss(&self, last: HeldOutLoss) -> Result<HeldOutLoss, Diagnostic> {
        let kind = self.setup.final_evaluation(self.report.tokens);
        if kind == last.kind || self.report.interrupted { Ok(last) } else { self.held_out_loss(kind) }
    }

    /// Closes the run folder for any outcome of the run.
    fn end(mut self, result: Result<(), Diagnostic>) -> Result<RunReport, Diagnostic> {
        let is_there = self.folder.path().is_dir();
        if result.is_err() && is_there {
            self.checkpoint_last(None);
        }
        self.logger.log_events(self.checkpointer.wait());
        self.report.checkpoint = self.checkpointer.last().map(|(_, path)| path.to_path_buf());
        self.report.checkpoint_failed = self.checkpointer.fault().is_some();
        let half_updated = self.state.half_updated.then_some(self.report.steps);
        let with_checkpoint = |error| status::with_checkpoint(error, &self.checkpointer, half_updated);
        // Without the folder there is no checkpoint either.
        let result = if is_there { result.map_err(with_checkpoint) } else { result };
        self.logger.observer.finish();
        let (outcome, status) = match &result {
            Err(_) => (RunOutcome::FAILED, RunStatus::Failed),
            Ok(()) if self.report.interrupted => (RunOutcome::INTERRUPTED, RunStatus::Interrupted),
            Ok(()) => (RunOutcome::COMPLETED, RunStatus::Completed),
        };
        if let Err(error) = &result {
            let event = Event::new(self.report.steps, AlertLevel::ERROR, "failed", &error.message);
            self.logger.log_event(Event { place: error.place.clone(), ..event });
        }
        let Self { setup, state, folder, checkpointer, logger, mut report, .. } = self;
        (report.sinks, report.faults) = logger.finish(report.steps, &report.summary(), outcome);
        report.faults.extend(checkpointer.fault().cloned());
        let written = status::write((&setup, &state), &folder, status, &report, result.as_ref().err());
        // The first fault is reported: a full disk causes several.
        result?;
        report.faults.extend(written.err());
        Ok(report)
    }

    pub(super) fn write_status(&self, status: RunStatus) -> Result<(), Diagnostic> {
        status::write((&self.setup, &self.state), &self.folder, status, &self.report, None)
    }
}

/// Opens the sinks, then sets the status to running and removes the final weights of an earlier part: a run whose sinks do not
/// open keeps both. Rewinding comes first, because sinks rewind too, some of them when they open: no checkpoint may be later than
/// the rows of any sink.
fn open(
    (setup, state): (&RunSetup, &TrainState),
    sinks: Vec<SinkSetup>,
    folder: &RunFolder,
    start: &Start,
    report: &RunReport,
) -> Result<Sinks, Diagnostic> {
    start.rewind(&Disk::default(), folder.path())?;
    let config_toml = setup.config.to_toml()?;
    let facts = RunFacts {
        name: setup.config.run.name.clone(),
        folder: folder.path().display().to_string(),
        config_toml: config_toml.clone(),
        metrics: setup.metrics.clone(),
        resume: start.sinks.clone(),
    };
    folder.reserve()?;
    let sinks = Sinks::open(sinks, facts)?;
    folder.write(CONFIG, config_toml.as_bytes())?;
    status::write((setup, state), folder, RunStatus::Running, report, None)?;
    remove_final_weights(folder.path())?;
    Ok(sinks)
}

/// Removes the final weights of the run's earlier part: the run is no longer at their step.
fn remove_final_weights(folder: &Path) -> Result<(), Diagnostic> {
    let path = folder.join(WEIGHTS);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Diagnostic::run(format!("the weights of the run's earlier part cannot be removed ({error})"))
                .at(path.display())
                .hint("is the folder read-only?"))
        }
        _ => Ok(()),
    }
}
