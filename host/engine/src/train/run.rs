//! A run, from an accepted setup to a closed run folder; the loop over steps in time order.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use altgrad_alerts::Evaluation;
use altgrad_base::{
    diagnostic::Diagnostic,
    files::{self, Disk},
    interrupt,
};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::{
    events::Event,
    folder::RunFolder,
    record::{EvaluationKind, Progress, RunStatus},
};

use super::{
    non_finite::NonFiniteTracker,
    open::open,
    progress::ProgressListener,
    run_logger::RunLogger,
    status::{self, HeldOutLoss, RunReport},
    step_state::StepState,
};
use crate::{
    checkpoint::{CheckpointKind, Checkpointer, RunIdentity, Start, StateTensors},
    debug::provenance,
    device_faults,
    device_rates::Products,
    metrics::{self, MetricRecord, StepOutputs, speed::StepTime, update_metrics::UpdateMetrics},
    passes::mean_loss,
    profile::{PROFILE, StepProfiler, StepTrace},
    setup::{ReadyRun, RunSetup},
    state::TrainState,
    step,
};

/// What a process does of a run, besides its run file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The number of steps, including those before a resume, after which it ends; `None` for all.
    pub stop_after: Option<u64>,
    /// The number of steps of a trace, from the second one of the process on; `None` for no trace.
    pub profile: Option<u64>,
}

/// The longest time between two writings of `run.json`.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// A run in progress.
pub(super) struct Run<'a> {
    pub(super) setup: RunSetup,
    pub(super) state: TrainState,
    /// The measurements of updates.
    pub(super) update_metrics: UpdateMetrics,
    pub(super) folder: RunFolder,
    pub(super) checkpointer: Checkpointer,
    pub(super) logger: RunLogger<'a>,
    pub(super) report: RunReport,
    /// The start of this process, and the time that earlier ones ran.
    clock: (Instant, Duration),
    /// The state between the last two steps, except tensors.
    pub(super) before: StepState,
    /// Steps in a row, up to the last one, that are not finite.
    pub(super) non_finite: NonFiniteTracker,
    /// When `run.json` was written last.
    written: Instant,
    /// Records the trace of some steps.
    profiler: Option<StepProfiler>,
}

/// Trains a run from `start` on, as `options` say, into a folder that is empty, not there, or holds the run's
/// beginning.
///
/// # Errors
/// The run folder cannot be made or a sink opened (a new run then leaves no files), or a plugin or the device failed in
/// a step (`run.json` records it, and the message names the checkpoint).
pub fn run(
    ready: ReadyRun,
    folder: &Path,
    mut start: Start,
    options: RunOptions,
    listener: &mut dyn ProgressListener,
) -> Result<RunReport, Diagnostic> {
    let ReadyRun { setup, state, update_metrics, sinks } = ready;
    let identity = start.identity.take().map_or_else(|| RunIdentity::of(&setup), Ok)?;
    let folder = start.folder.take().map_or_else(|| RunFolder::claim(folder), Ok)?;
    if let Some(warning) = setup.scale_warning.as_ref().filter(|_| start.from.is_none()) {
        tracing::warn!("{warning}");
    }
    listener.claimed(&folder);
    let mut report = RunReport::starting(&start, setup.config.alerts, setup.facts());
    report.go_on_from(&folder);
    report.data_fingerprint = Some(identity.data().fingerprint.clone());
    let sinks = match open((&setup, &state), sinks, &folder, &start, &report) {
        Ok(sinks) => sinks,
        Err(diagnostic) => {
            folder.discard();
            return Err(diagnostic);
        }
    };
    listener.begun();
    report.products = Products::measure(&setup, &state.params.layout);
    let resumed = start.sinks.is_some().then_some(start.step);
    let logger = RunLogger::open(sinks, folder.path(), resumed, listener);
    let from = start.from.clone().map(|path| (start.step, path));
    let section = setup.config.checkpoint;
    let checkpointer = Checkpointer::new(folder.path(), section, identity, Disk::default(), from);
    let clock = (Instant::now(), start.clock());
    let before = StepState::new(&state, &report, start.clock());
    let non_finite = NonFiniteTracker::default();
    let written = Instant::now();
    let mut run = Run {
        setup,
        state,
        update_metrics,
        folder,
        checkpointer,
        logger,
        report,
        clock,
        before,
        non_finite,
        written,
        profiler: options.profile.map(StepProfiler::new),
    };
    run.logger.log_events(start.event().into_iter().collect());
    let result = device_faults::guarded(|| run.steps(options.stop_after).and_then(|()| run.close()));
    let result = result.and_then(|()| run.check_finite());
    run.end(result)
}

impl Run<'_> {
    /// The step loop.
    fn steps(&mut self, stop_after: Option<u64>) -> Result<(), Diagnostic> {
        let last = self.setup.config.train.max_steps.min(stop_after.unwrap_or(u64::MAX));
        for step in self.report.steps..last {
            let trace = self.profiler.as_mut().and_then(StepProfiler::before_step);
            self.write_trace(trace);
            let _span = tracing::debug_span!("step").entered();
            let mut record = MetricRecord::new(step);
            self.switch_casts_at(step);
            self.state.quant.state.step = step;
            self.before = self.step_state();
            // Evaluation comes before the update: step 0 evaluates the initial weights.
            let evaluated = self.evaluate_if_due(step, &mut record)?;
            self.checkpoint_if_due(step, evaluated);

            let started = Instant::now();
            let (grads, outputs) = step::compute_gradients(&self.setup, &mut self.state, step, None)?;
            let elapsed = started.elapsed().saturating_sub(outputs.measuring);
            self.find_origin(step, &outputs)?;
            self.logger.log_events(self.checkpointer.bound_loss(step + 1));
            let started = Instant::now();
            let update = step::apply_update(
                &self.setup,
                (&mut self.state, &mut self.update_metrics),
                step,
                grads,
                &outputs,
            )?;
            let elapsed = elapsed + started.elapsed();
            self.logger.log_events(update.event(step, outputs.loss).into_iter().collect());
            let products = self.report.products;
            step::record_metrics(
                &mut record,
                &self.setup,
                (&self.state, &self.update_metrics),
                (&outputs, &update),
                StepTime {
                    elapsed,
                    utilization: products.map(|of| of.utilization(1, elapsed)),
                    sheet_utilization: products.and_then(|of| of.sheet_utilization(1, elapsed)),
                },
            );

            self.report.add_step(outputs.loss, self.setup.tokens_per_step(), elapsed);
            let diverged = self.raise_alerts(&record);
            // The evaluation after the last step uses the casts that it trained with.
            if step + 1 < self.setup.config.train.max_steps {
                self.switch_casts_on_alerts(step);
            }
            tracing::debug_span!("logging").in_scope(|| self.logger.log_metrics(record));
            if diverged {
                self.before = self.step_state();
                self.checkpoint_now(CheckpointKind::Anomaly, None);
            }
            self.after_step(step, last, evaluated.is_some())?;
            if interrupt::requested() {
                self.report.interrupted = true;
                let event = Event::new(step, AlertLevel::INFO, "interrupted", "the user stopped the run");
                self.logger.log_event(event);
                break;
            }
        }
        let trace = self.profiler.as_mut().and_then(StepProfiler::end);
        self.write_trace(trace);
        Ok(())
    }

    /// Writes the trace of some steps into the run folder. A fault does not stop the run.
    fn write_trace(&mut self, trace: Option<StepTrace>) {
        let Some(trace) = trace else { return };
        let path = self.folder.path().join(PROFILE);
        match files::write(&path, trace.to_json().to_string().as_bytes()) {
            Ok(()) => self.report.profile = Some(path),
            Err(error) => self.report.faults.push(
                Diagnostic::run(format!("the trace of the steps is not written: {error}")).at(path.display()),
            ),
        }
    }

    /// Finds the origin of values that are not finite in the first step that has some, before its update, which spreads
    /// them over all parameters.
    fn find_origin(&mut self, step: u64, outputs: &StepOutputs) -> Result<(), Diagnostic> {
        if outputs.is_finite() || step::overflowed(&self.state, outputs) {
            self.non_finite.clear();
        } else if !self.non_finite.is_active() {
            let origin = provenance::find(&self.setup, &self.state, step)?;
            let keeps = self.setup.config.checkpoint.on_anomaly;
            let tensors = keeps.then(|| StateTensors::of(&self.state, &self.update_metrics)).transpose()?;
            self.non_finite.begin(origin, tensors.map(|tensors| (self.before.clone(), tensors)));
        }
        Ok(())
    }

    /// Shows and writes the progress after step `step`. The run ends here if its folder has moved, or if it is lost.
    fn after_step(&mut self, step: u64, last: u64, evaluated: bool) -> Result<(), Diagnostic> {
        self.show_progress(last);
        self.check_location()?;
        self.logger.log_sink_faults(step);
        // Between evaluations from time to time, so that the status of a process that is killed with its supervisor is
        // not old.
        if evaluated || self.written.elapsed() >= STATUS_INTERVAL {
            self.report.sinks = self.logger.counts();
            // A fault here is reported at the end too, where the file is written for the last time.
            let _ = self.write_status(RunStatus::Running);
        }
        if self.report.alerts.run_is_lost() {
            self.report.not_finite = true;
            return Err(self.non_finite.lost(step, self.setup.config.alerts.nan_patience));
        }
        Ok(())
    }

    /// A run whose folder is renamed or deleted ends: others may be about to use either path. A renamed folder is
    /// closed normally.
    fn check_location(&mut self) -> Result<(), Diagnostic> {
        let checked = self.folder.check_location();
        if checked.is_err() {
            self.before = self.step_state();
            let events = self.checkpointer.move_to(self.folder.path());
            self.logger.log_events(events);
        }
        checked
    }

    /// Refuses a completed run whose final loss or weights are not finite. An interrupted run has a status of its own.
    fn check_finite(&self) -> Result<(), Diagnostic> {
        if self.report.not_finite && !self.report.interrupted {
            return Err(self.non_finite.ended(self.report.steps));
        }
        Ok(())
    }

    /// The present state of the run, except tensors.
    pub(super) fn step_state(&self) -> StepState {
        StepState::new(&self.state, &self.report, self.elapsed())
    }

    /// Time since the run's start, pauses left out.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.1 + self.clock.0.elapsed()
    }

    /// Held-out loss with the weights that training uses.
    pub(super) fn held_out_loss(&self, kind: EvaluationKind) -> Result<HeldOutLoss, Diagnostic> {
        let TrainState { params, quant, .. } = &self.state;
        let mean = mean_loss(&self.setup.model.gpt, params, quant, self.setup.held_out(kind))?;
        Ok(HeldOutLoss { kind, mean })
    }

    /// An evaluation like all others during the run, so that alerts and the best evaluation compare equal kinds.
    pub(super) fn evaluate(&mut self, record: &mut MetricRecord) -> Result<HeldOutLoss, Diagnostic> {
        let held_out = self.held_out_loss(self.setup.evaluation())?;
        metrics::training::record_evaluation(record, held_out.mean.loss);
        self.report.last_val = Some(Evaluation { step: record.step, loss: held_out.mean.loss });
        if record.step == 0 {
            self.report.initial_val_loss = Some(held_out.mean.loss);
        }
        Ok(held_out)
    }

    fn evaluate_if_due(&mut self, step: u64, record: &mut MetricRecord) -> Result<Option<f64>, Diagnostic> {
        let due = step::is_due(self.setup.config.train.eval_interval, step);
        let _span = due.then(|| tracing::debug_span!("evaluation").entered());
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
        self.logger.listener.step(&progress);
    }

    pub(super) fn write_status(&mut self, status: RunStatus) -> Result<(), Diagnostic> {
        self.written = Instant::now();
        self.setup.device.store_kernels();
        self.report.compare_products();
        self.report.checkpoint = self.checkpointer.last().map(|(_, path)| path.to_path_buf());
        status::write((&self.setup, &self.state), &self.folder, status, &self.report, None)
    }
}
