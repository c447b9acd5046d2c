//! A run, from an accepted plan to a closed run folder; the loop over steps in time order.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use altgrad_plugin_api::RunOutcome;
use serde_json::{Value, json};

use super::{interrupt, step};
use crate::{
    cli::progress::Progress,
    diagnostic::Diagnostic,
    metrics::{self, MetricName, MetricRecord},
    model::weights,
    plan::Plan,
    run_folder::{self, RunFolder, STATUS},
    sinks::{RunFacts, Sinks},
};

/// Steps in a row with a NaN loss after which a run is given up.
const NAN_PATIENCE: u32 = 10;
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
    /// Lowest held-out loss seen, the final one included.
    pub best_val_loss: Option<f64>,
    /// Training tokens.
    pub tokens: u64,
    /// Time in steps, evaluation not counted.
    pub training_time: Duration,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// What went wrong without stopping the run.
    pub faults: Vec<Diagnostic>,
}

impl Report {
    /// Training tokens a second; missing if no step was done.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.tokens as f64 / self.training_time.as_secs_f64())
    }

    fn see_validation(&mut self, loss: f64) {
        // NaN is never the best.
        if !loss.is_nan() {
            self.best_val_loss = Some(self.best_val_loss.map_or(loss, |best| best.min(loss)));
        }
    }

    fn summary(&self) -> Vec<(MetricName, f64)> {
        let entries = [
            (MetricName::value("final/train_loss"), self.final_loss),
            (MetricName::value("final/val_loss"), self.final_val_loss),
            (MetricName::value("best/val_loss"), self.best_val_loss),
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
    let mut sinks = match open(&mut plan, &folder) {
        Ok(sinks) => sinks,
        Err(diagnostic) => {
            folder.discard();
            return Err(diagnostic);
        }
    };
    let mut report = Report::default();
    let result = steps(&mut plan, stop_after, &mut sinks, progress, &mut report)
        .and_then(|()| close_weights(&plan, &folder, &mut report));
    progress.finish();
    let outcome = match &result {
        Err(_) => RunOutcome::Failed,
        Ok(()) if report.interrupted => RunOutcome::Interrupted,
        Ok(()) => RunOutcome::Completed,
    };
    report.faults = sinks.finish(&report.summary(), outcome);
    let status = write_status(&plan, &folder, outcome, &report, result.as_ref().err());
    // The first fault is the one to report: a full disk shows in several places.
    result?;
    report.faults.extend(status.err());
    Ok(report)
}

/// The step loop.
fn steps(
    plan: &mut Plan,
    stop_after: Option<u64>,
    sinks: &mut Sinks,
    progress: &mut Progress,
    report: &mut Report,
) -> Result<(), Diagnostic> {
    let last = plan.config.train.max_steps.min(stop_after.unwrap_or(u64::MAX));
    let tokens = plan.tokens_per_step();
    let mut nan_steps = 0;
    for step in 0..last {
        let mut record = MetricRecord::new(step);
        plan.trainer.quant.begin_step(step);
        // Evaluation comes before the update: step 0 shows the initial weights.
        if step::due(plan.config.train.eval_interval, step) {
            let loss = validate(plan)?;
            report.see_validation(loss);
            metrics::train::record_validation(&mut record, loss);
        }
        let (loss, elapsed) = step::step(plan, step, &mut record)?;
        sinks.write(record);
        report.steps = step + 1;
        report.final_loss = Some(loss);
        report.tokens += tokens;
        report.training_time += elapsed;
        progress.step(step + 1, last, loss, report);
        for fault in sinks.new_faults() {
            progress.say(&format!("{fault}\n  training goes on without this sink"));
        }
        nan_steps = if loss.is_nan() { nan_steps + 1 } else { 0 };
        if nan_steps == NAN_PATIENCE {
            return Err(Diagnostic::run(format!(
                "the loss was NaN for {NAN_PATIENCE} steps, the last one step {step}"
            ))
            .at(format!("step {step}"))
            .hint("lower train.lr, or compare with an unquantized run; metrics up to here are kept"));
        }
        if interrupt::requested() {
            report.interrupted = true;
            break;
        }
    }
    Ok(())
}

/// Held-out loss with the weights as training sees them.
fn validate(plan: &Plan) -> Result<f64, Diagnostic> {
    let batches = (0..plan.config.train.eval_batches as u64).map(|index| plan.batches.validation(index));
    plan.trainer.loss(batches)
}

fn open(plan: &mut Plan, folder: &RunFolder) -> Result<Sinks, Diagnostic> {
    let config_toml = plan.config.to_toml()?;
    folder.write("config.toml", config_toml.as_bytes())?;
    folder.write(STATUS, &pretty(&status(plan, "running", &Report::default(), None)))?;
    let facts = RunFacts {
        name: plan.config.run.name.clone(),
        folder: folder.path().display().to_string(),
        config_toml,
        metrics: plan.metrics.clone(),
    };
    Sinks::open(std::mem::take(&mut plan.sinks), facts)
}

/// Evaluates and writes the final weights.
fn close_weights(plan: &Plan, folder: &RunFolder, report: &mut Report) -> Result<(), Diagnostic> {
    let loss = validate(plan)?;
    report.see_validation(loss);
    report.final_val_loss = Some(loss);
    weights::write(&folder.path().join(WEIGHTS), &plan.trainer.params.layout, &plan.trainer.weights()?)
}

fn write_status(
    plan: &Plan,
    folder: &RunFolder,
    outcome: RunOutcome,
    report: &Report,
    error: Option<&Diagnostic>,
) -> Result<(), Diagnostic> {
    let status_name = match outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Interrupted => "interrupted",
        RunOutcome::Failed => "failed",
    };
    folder.write(STATUS, &pretty(&status(plan, status_name, report, error)))
}

fn status(plan: &Plan, status: &str, report: &Report, error: Option<&Diagnostic>) -> Value {
    let unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs()).ok();
    let faults: Vec<String> = report.faults.iter().map(|fault| fault.message.clone()).collect();
    json!({
        "name": plan.config.run.name,
        "status": status,
        "error": error.map(|error| error.message.clone()),
        "faults": faults,
        "updated_unix_s": unix_s,
        "steps": report.steps,
        "final_train_loss": report.final_loss,
        "final_val_loss": report.final_val_loss,
        "best_val_loss": report.best_val_loss,
        "tokens": report.tokens,
        "training_s": report.training_time.as_secs_f64(),
        "tokens_per_s": report.tokens_per_s(),
        "parameters": plan.trainer.params.layout.elements(),
        "environment": run_folder::environment(&plan.registry, &plan.used, &plan.device.label),
    })
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
