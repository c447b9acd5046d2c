//! A run, from an accepted plan to a closed run folder; the loop over steps in time order.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{AlertLevel, RunOutcome};

use super::{
    interrupt,
    outlets::Outlets,
    state::{Before, Wrong},
    status::{self, Report},
    step,
};
use crate::{
    alerts::{Alert, AlertKind},
    checkpoint::{Identity, Keeper, Kind, Snapshot, Start, Tensors},
    cli::progress::Progress,
    diagnostic::Diagnostic,
    events::Event,
    files::Disk,
    metrics::{self, MetricRecord},
    model::weights,
    plan::Plan,
    run_folder::RunFolder,
    sinks::{RunFacts, Sinks},
};

/// File of the final weights in the run folder.
pub const WEIGHTS: &str = "weights.safetensors";

/// A run that is under way.
struct Run<'a> {
    plan: Plan,
    folder: RunFolder,
    keeper: Keeper,
    outlets: Outlets<'a>,
    report: Report,
    /// When this process began, and how long earlier ones ran.
    clock: (Instant, Duration),
    /// What the state was between the last two steps, tensors aside.
    before: Before,
    /// Where the last step stopped being finite, if it did, and what was before.
    wrong: Wrong,
}

/// Trains the plan's run from `start` on, up to step `stop_after`, into a folder that is empty, not there, or holds the
/// run's beginning.
///
/// # Errors
/// The run folder cannot be made or a sink opened (of a new run nothing is left behind then), or a plugin or the device
/// failed in a step (the folder says so in `run.json`; the message, where its checkpoint is).
pub fn run(
    mut plan: Plan,
    folder: &Path,
    mut start: Start,
    stop_after: Option<u64>,
    progress: &mut Progress,
) -> Result<Report, Diagnostic> {
    let identity = start.identity.take().map_or_else(|| Identity::of(&plan), Ok)?;
    let folder = start.folder.take().map_or_else(|| RunFolder::claim(folder), Ok)?;
    let report = Report::starting(&start, plan.config.alerts);
    let sinks = match open(&mut plan, &folder, &start, &report) {
        Ok(sinks) => sinks,
        Err(diagnostic) => {
            folder.discard();
            return Err(diagnostic);
        }
    };
    let resumed = start.sinks.is_some().then_some(start.step);
    let outlets = Outlets::open(sinks, folder.path(), resumed, progress);
    let from = start.from.clone().map(|path| (start.step, path));
    let keeper = Keeper::new(folder.path(), plan.config.checkpoint, identity, Disk::default(), from);
    let clock = (Instant::now(), start.clock());
    let before = Before::new(&plan, &report, start.clock());
    let mut run = Run { plan, folder, keeper, outlets, report, clock, before, wrong: Wrong::default() };
    run.outlets.told(start.event().into_iter().collect());
    let result = run.steps(stop_after).and_then(|()| run.close());
    run.end(result)
}

impl Run<'_> {
    /// The step loop.
    fn steps(&mut self, stop_after: Option<u64>) -> Result<(), Diagnostic> {
        let last = self.plan.config.train.max_steps.min(stop_after.unwrap_or(u64::MAX));
        for step in self.report.steps..last {
            let mut record = MetricRecord::new(step);
            self.plan.trainer.quant.begin_step(step);
            self.before = Before::new(&self.plan, &self.report, self.elapsed());
            // Evaluation comes before the update: step 0 shows the initial weights.
            let due = step::due(self.plan.config.train.eval_interval, step);
            let evaluated = due.then(|| validate(&self.plan)).transpose()?;
            if let Some(loss) = evaluated {
                metrics::training::record_evaluation(&mut record, loss);
            }
            self.keep_if_due(step, evaluated);
            let (loss, elapsed) = step::step(&mut self.plan, step, &mut record, &mut self.wrong.now, None)?;
            self.wrong.note(&self.before);
            self.report.steps = step + 1;
            self.report.final_loss = Some(loss);
            self.report.tokens += self.plan.tokens_per_step();
            self.report.training_time += elapsed;
            let diverged = self.watch(&record);
            self.outlets.row(record);
            if diverged {
                self.before = Before::new(&self.plan, &self.report, self.elapsed());
                self.keep_now(Kind::Anomaly, None);
            }
            self.outlets.progress.step(step + 1, last, loss, &self.report);
            self.outlets.show_faults(step);
            if evaluated.is_some() {
                self.report.sinks = self.outlets.counts();
                // A fault here shows at the end too, where the file is written for the last time.
                let _ = self.write_status("running", None);
            }
            if self.report.alerts.run_is_lost() {
                return Err(self.wrong.lost(step, self.plan.config.alerts.nan_patience));
            }
            if interrupt::requested() {
                self.report.interrupted = true;
                self.outlets.event(Event::new(
                    step,
                    AlertLevel::Info,
                    "interrupted",
                    "the user stopped the run",
                ));
                break;
            }
        }
        Ok(())
    }

    /// Time since the run's start, pauses left out.
    fn elapsed(&self) -> Duration {
        self.clock.1 + self.clock.0.elapsed()
    }

    /// Looks at a record and says what it gives rise to. Whether the run has just been found to diverge.
    fn watch(&mut self, record: &MetricRecord) -> bool {
        let known = self.report.alerts.best();
        let mut diverged = false;
        for alert in self.report.alerts.see(record, self.elapsed()) {
            if alert.kind.is_anomaly() {
                diverged |= self.anomaly(alert);
            } else {
                self.outlets.alert(alert.into());
            }
        }
        if let Some(best) = self.report.alerts.best().filter(|best| known != Some(*best)) {
            let text = format!("the best validation loss so far: {:.4} nats/token", best.loss);
            let event = Event::new(best.step, AlertLevel::Info, "best", text);
            self.outlets.event(Event { value: Some(best.loss), ..event });
        }
        diverged && self.wrong.now.is_none()
    }

    /// What happens when the training goes wrong in a way whose state is worth a later look: the alert says where numbers
    /// stopped being finite, if they did, and the state before that is kept.
    fn anomaly(&mut self, alert: Alert) -> bool {
        let not_finite = matches!(alert.kind, AlertKind::NanLoss | AlertKind::NanGrad);
        let mut event = Event::from(alert);
        if not_finite && let Some((step, first)) = self.wrong.first() {
            event.text = format!("{}; it began at step {step} in {first}", event.text);
            event.place = Some(first.place.to_string());
        }
        self.outlets.alert(event);
        if not_finite && let Some((before, tensors)) = self.wrong.take() {
            self.keep(Kind::Anomaly, None, before, tensors);
        }
        !not_finite
    }

    /// A checkpoint before step `step`, if there should be one. None while numbers are not finite: the last good state is
    /// worth more.
    fn keep_if_due(&mut self, step: u64, evaluated: Option<f64>) {
        self.outlets.told(self.keeper.poll());
        let best = self.report.alerts.best().map(|best| best.loss);
        let better = evaluated.is_some_and(|loss| best.is_none_or(|best| loss < best));
        let wanted = self.keeper.is_due(step) || better && self.keeper.keeps_best();
        let fresh = step > 0 && self.keeper.last().is_none_or(|(last, _)| last != step);
        if wanted && fresh && self.wrong.now.is_none() {
            self.keep_now(Kind::Step, evaluated);
        }
    }

    fn keep_now(&mut self, kind: Kind, val_loss: Option<f64>) {
        match Tensors::of(&self.plan) {
            Ok(tensors) => self.keep(kind, val_loss, self.before.clone(), tensors),
            Err(fault) => {
                let step = self.before.step;
                let event = Event::new(step, AlertLevel::Error, "checkpoint_failed", fault.message);
                self.outlets.alert(event);
            }
        }
    }

    fn keep(&mut self, kind: Kind, val_loss: Option<f64>, before: Before, tensors: Tensors) {
        if kind == Kind::Anomaly && !self.keeper.keeps_anomaly() {
            return;
        }
        let Before { step, carried, alerts, totals } = before;
        let resumes = self.report.resumes.clone();
        let snapshot = Snapshot { kind, step, val_loss, tensors, carried, alerts, totals, resumes };
        let told = self.keeper.save(snapshot, self.outlets.request_states());
        self.outlets.told(told);
    }

    /// The run's last checkpoint, if there is none of this step yet and its state is worth one.
    fn keep_last(&mut self, val_loss: Option<f64>) {
        self.outlets.told(self.keeper.wait());
        let sound = self.wrong.now.is_none() && !self.plan.trainer.torn;
        let fresh =
            self.before.step > 0 && self.keeper.last().is_none_or(|(last, _)| last != self.before.step);
        if sound && fresh {
            self.keep_now(Kind::Step, val_loss);
            self.outlets.told(self.keeper.wait());
        }
    }

    /// Evaluates and writes the final weights.
    fn close(&mut self) -> Result<(), Diagnostic> {
        // What alerts make of the last evaluation is not part of it: a run that goes on makes it again, if it is due.
        self.before = Before::new(&self.plan, &self.report, self.elapsed());
        // A run resumed at its end has begun no step, and must draw the bits of the last all the same.
        self.plan.trainer.quant.begin_step(self.report.steps.saturating_sub(1));
        let loss = validate(&self.plan)?;
        self.keep_last(Some(loss));
        self.report.final_val_loss = Some(loss);
        let mut record = MetricRecord::new(self.report.steps);
        metrics::training::record_evaluation(&mut record, loss);
        self.watch(&record);
        let layout = &self.plan.trainer.params.layout;
        weights::write(&self.folder.path().join(WEIGHTS), layout, &self.plan.trainer.weights()?)
    }

    /// Closes the run folder, whatever the run came to.
    fn end(mut self, result: Result<(), Diagnostic>) -> Result<Report, Diagnostic> {
        if result.is_err() {
            self.keep_last(None);
        }
        self.outlets.told(self.keeper.wait());
        self.report.checkpoint = self.keeper.last().map(|(_, path)| path.to_path_buf());
        self.report.checkpoint_failed = self.keeper.fault().is_some();
        let torn = self.plan.trainer.torn.then_some(self.report.steps);
        let result = result.map_err(|error| status::with_checkpoint(error, &self.keeper, torn));
        self.outlets.progress.finish();
        let (outcome, name) = match &result {
            Err(_) => (RunOutcome::Failed, "failed"),
            Ok(()) if self.report.interrupted => (RunOutcome::Interrupted, "interrupted"),
            Ok(()) => (RunOutcome::Completed, "completed"),
        };
        if let Err(error) = &result {
            let event = Event::new(self.report.steps, AlertLevel::Error, "failed", &error.message);
            self.outlets.event(Event { place: error.place.clone(), ..event });
        }
        let Self { plan, folder, keeper, outlets, mut report, .. } = self;
        (report.sinks, report.faults) = outlets.finish(report.steps, &report.summary(), outcome);
        report.faults.extend(keeper.fault().cloned());
        let written = status::write(&plan, &folder, name, &report, result.as_ref().err());
        // The first fault is the one to report: a full disk shows in several places.
        result?;
        report.faults.extend(written.err());
        Ok(report)
    }

    fn write_status(&self, name: &str, error: Option<&Diagnostic>) -> Result<(), Diagnostic> {
        status::write(&self.plan, &self.folder, name, &self.report, error)
    }
}

/// Held-out loss with the weights as training sees them.
fn validate(plan: &Plan) -> Result<f64, Diagnostic> {
    let batches = (0..plan.config.train.eval_batches as u64).map(|index| plan.batches.validation(index));
    plan.trainer.loss(batches)
}

/// Opens the sinks, and says that the run goes on when they are open: one that cannot go on keeps its status. Going back comes
/// first, because sinks go back too: rows and checkpoints must end together.
fn open(plan: &mut Plan, folder: &RunFolder, start: &Start, report: &Report) -> Result<Sinks, Diagnostic> {
    start.rewind(&Disk::default(), folder.path())?;
    let config_toml = plan.config.to_toml()?;
    let facts = RunFacts {
        name: plan.config.run.name.clone(),
        folder: folder.path().display().to_string(),
        config_toml: config_toml.clone(),
        metrics: plan.metrics.clone(),
        resume: start.sinks.clone(),
    };
    let sinks = Sinks::open(std::mem::take(&mut plan.sinks), facts)?;
    folder.write("config.toml", config_toml.as_bytes())?;
    status::write(plan, folder, "running", report, None)?;
    Ok(sinks)
}
