//! A run, from an accepted plan to a closed run folder; the loop over steps in time order.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{AlertLevel, RunOutcome};
use serde_json::{Value, json};

use super::{interrupt, outlets::Outlets, provenance::Provenance, step};
use crate::{
    alerts::{Alert, Alerts, Kind},
    cli::progress::Progress,
    diagnostic::Diagnostic,
    events::{Event, unix_s},
    metrics::{self, MetricName, MetricRecord},
    model::weights,
    plan::Plan,
    run_folder::{self, RunFolder, STATUS},
    sinks::{RunFacts, SinkCounts, Sinks},
};

/// File of the final weights in the run folder.
pub const WEIGHTS: &str = "weights.safetensors";

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Steps done.
    pub steps: u64,
    /// Loss of the last step's batch before its update; missing if no step was done.
    pub final_loss: Option<f64>,
    /// Held-out loss of the final weights; missing if the run failed.
    pub final_val_loss: Option<f64>,
    /// Alerts, evaluations and what they came to, the final evaluation included.
    pub alerts: Alerts,
    /// Training tokens.
    pub tokens: u64,
    /// Time in steps, evaluation not counted.
    pub training_time: Duration,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// What became of rows and events in each sink.
    pub sinks: Vec<SinkCounts>,
    /// What went wrong without stopping the run.
    pub faults: Vec<Diagnostic>,
}

impl Report {
    /// Training tokens a second; missing if no step was done.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.tokens as f64 / self.training_time.as_secs_f64())
    }

    fn summary(&self) -> Vec<(MetricName, f64)> {
        let entries = [
            (MetricName::value("final/train_loss"), self.final_loss),
            (MetricName::value("final/val_loss"), self.final_val_loss),
            (MetricName::value("best/val_loss"), self.alerts.best().map(|best| best.loss)),
            (MetricName::timing("run/tokens_per_s"), self.tokens_per_s()),
        ];
        entries.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Trains the plan's run, at most `stop_after` steps of it, into a folder that is empty or not there.
///
/// # Errors
/// The run folder cannot be made or a sink opened (nothing is left behind then), or a plugin or the device failed
/// in a step (the folder says so in `run.json`).
pub fn run(
    mut plan: Plan,
    folder: &Path,
    stop_after: Option<u64>,
    progress: &mut Progress,
) -> Result<Report, Diagnostic> {
    let folder = RunFolder::claim(folder)?;
    let sinks = match open(&mut plan, &folder) {
        Ok(sinks) => sinks,
        Err(diagnostic) => {
            folder.discard();
            return Err(diagnostic);
        }
    };
    let mut outlets = Outlets::open(sinks, folder.path(), progress);
    let mut report = Report { alerts: Alerts::new(plan.config.alerts), ..Report::default() };
    let started = Instant::now();
    let result = steps(&mut plan, &folder, stop_after, started, &mut outlets, &mut report)
        .and_then(|()| close_weights(&plan, &folder, started, &mut outlets, &mut report));
    outlets.progress.finish();
    let outcome = match &result {
        Err(_) => RunOutcome::Failed,
        Ok(()) if report.interrupted => RunOutcome::Interrupted,
        Ok(()) => RunOutcome::Completed,
    };
    if let Err(error) = &result {
        let event = Event::new(report.steps, AlertLevel::Error, "failed", &error.message);
        outlets.event(Event { place: error.place.clone(), ..event });
    }
    (report.sinks, report.faults) = outlets.finish(report.steps, &report.summary(), outcome);
    let status = write_status(&plan, &folder, outcome_name(outcome), &report, result.as_ref().err());
    // The first fault is the one to report: a full disk shows in several places.
    result?;
    report.faults.extend(status.err());
    Ok(report)
}

/// The step loop.
fn steps(
    plan: &mut Plan,
    folder: &RunFolder,
    stop_after: Option<u64>,
    started: Instant,
    outlets: &mut Outlets<'_>,
    report: &mut Report,
) -> Result<(), Diagnostic> {
    let last = plan.config.train.max_steps.min(stop_after.unwrap_or(u64::MAX));
    let tokens = plan.tokens_per_step();
    let mut origin = None;
    for step in 0..last {
        let mut record = MetricRecord::new(step);
        plan.trainer.quant.begin_step(step);
        // Evaluation comes before the update: step 0 shows the initial weights.
        let evaluated = step::due(plan.config.train.eval_interval, step);
        if evaluated {
            metrics::train::record_validation(&mut record, validate(plan)?);
        }
        let (loss, elapsed) = step::step(plan, step, &mut record, &mut origin, None)?;
        report.steps = step + 1;
        report.final_loss = Some(loss);
        report.tokens += tokens;
        report.training_time += elapsed;
        watch(&record, origin.as_ref(), started, outlets, report);
        outlets.row(record);
        outlets.progress.step(step + 1, last, loss, report);
        outlets.show_faults(step);
        if evaluated {
            report.sinks = outlets.counts();
            // A fault here shows at the end too, where the file is written for the last time.
            let _ = write_status(plan, folder, "running", report, None);
        }
        if report.alerts.run_is_lost() {
            return Err(lost(step, plan.config.alerts.nan_patience, origin.as_ref()));
        }
        if interrupt::requested() {
            report.interrupted = true;
            outlets.event(Event::new(step, AlertLevel::Info, "interrupted", "the user stopped the run"));
            break;
        }
    }
    Ok(())
}

/// Looks at a record and says what it gives rise to.
fn watch(
    record: &MetricRecord,
    origin: Option<&Provenance>,
    started: Instant,
    outlets: &mut Outlets<'_>,
    report: &mut Report,
) {
    let known = report.alerts.best();
    for alert in report.alerts.see(record, started.elapsed()) {
        if alert.kind.is_anomaly() {
            anomaly(alert, origin, outlets);
        } else {
            outlets.alert(alert.into());
        }
    }
    if let Some(best) = report.alerts.best().filter(|best| known != Some(*best)) {
        let text = format!("the best validation loss so far: {:.4} nats/token", best.loss);
        let event = Event::new(best.step, AlertLevel::Info, "best", text);
        outlets.event(Event { value: Some(best.loss), ..event });
    }
}

/// What happens when the training goes wrong in a way whose state is worth a later look: the alert says where numbers
/// stopped being finite, if they did.
fn anomaly(alert: Alert, origin: Option<&Provenance>, outlets: &mut Outlets<'_>) {
    let origin = origin.filter(|_| matches!(alert.kind, Kind::NanLoss | Kind::NanGrad));
    let mut event = Event::from(alert);
    if let Some((step, first)) = origin.and_then(|origin| Some((origin.step, origin.first()?))) {
        event.text = format!("{}; it began at step {step} in {first}", event.text);
        event.place = Some(first.place.to_string());
    }
    outlets.alert(event);
}

/// A run without a number for too long.
fn lost(step: u64, patience: u64, origin: Option<&Provenance>) -> Diagnostic {
    let origin = origin.map_or_else(String::new, |origin| format!("; {origin}"));
    let message = format!(
        "loss or gradients were NaN or infinite for {patience} steps, the last one step {step}{origin}"
    );
    Diagnostic::run(message)
        .at(format!("step {step}"))
        .hint("lower train.lr, or compare with an unquantized run; metrics up to here are kept")
}

/// Held-out loss with the weights as training sees them.
fn validate(plan: &Plan) -> Result<f64, Diagnostic> {
    let batches = (0..plan.config.train.eval_batches as u64).map(|index| plan.batches.validation(index));
    plan.trainer.loss(batches)
}

fn open(plan: &mut Plan, folder: &RunFolder) -> Result<Sinks, Diagnostic> {
    let config_toml = plan.config.to_toml()?;
    folder.write("config.toml", config_toml.as_bytes())?;
    write_status(plan, folder, "running", &Report::default(), None)?;
    let facts = RunFacts {
        name: plan.config.run.name.clone(),
        folder: folder.path().display().to_string(),
        config_toml,
        metrics: plan.metrics.clone(),
    };
    Sinks::open(std::mem::take(&mut plan.sinks), facts)
}

/// Evaluates and writes the final weights.
fn close_weights(
    plan: &Plan,
    folder: &RunFolder,
    started: Instant,
    outlets: &mut Outlets<'_>,
    report: &mut Report,
) -> Result<(), Diagnostic> {
    let loss = validate(plan)?;
    report.final_val_loss = Some(loss);
    let mut record = MetricRecord::new(report.steps);
    metrics::train::record_validation(&mut record, loss);
    watch(&record, None, started, outlets, report);
    weights::write(&folder.path().join(WEIGHTS), &plan.trainer.params.layout, &plan.trainer.weights()?)
}

fn outcome_name(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Interrupted => "interrupted",
        RunOutcome::Failed => "failed",
    }
}

fn write_status(
    plan: &Plan,
    folder: &RunFolder,
    name: &str,
    report: &Report,
    error: Option<&Diagnostic>,
) -> Result<(), Diagnostic> {
    folder.write(STATUS, format!("{:#}\n", status(plan, name, report, error)).as_bytes())
}

fn status(plan: &Plan, status: &str, report: &Report, error: Option<&Diagnostic>) -> Value {
    let best = report.alerts.best();
    let alerts: BTreeMap<&str, u64> =
        report.alerts.counts().map(|(kind, count)| (kind.name(), count)).collect();
    let faults: Vec<String> = report.faults.iter().map(|fault| fault.message.clone()).collect();
    json!({
        "name": plan.config.run.name,
        "status": status,
        "error": error.map(|error| error.message.clone()),
        "faults": faults,
        "sinks": report.sinks,
        "updated_unix_s": unix_s(),
        "steps": report.steps,
        "final_train_loss": report.final_loss,
        "final_val_loss": report.final_val_loss,
        "best_val_loss": best.map(|best| best.loss),
        "best_val_step": best.map(|best| best.step),
        "diverged": report.alerts.diverged_at().is_some(),
        "diverged_step": report.alerts.diverged_at(),
        "alerts": alerts,
        "tokens": report.tokens,
        "training_s": report.training_time.as_secs_f64(),
        "tokens_per_s": report.tokens_per_s(),
        "parameters": plan.trainer.params.layout.elements(),
        "computed": plan.computed(),
        "environment": run_folder::environment(&plan.registry, &plan.used, &plan.device.label),
    })
}
