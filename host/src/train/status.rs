//! What a run came to: the report, and `run.json`, which says it to other programs.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use altgrad_metrics::{MetricId, families::closing};
use serde_json::{Value, json};

use crate::{
    alerts::Alerts,
    checkpoint::{
        Keeper, Start,
        state::{Resume, Totals},
    },
    config::AlertsSection,
    diagnostic::Diagnostic,
    events::unix_s,
    plan::Plan,
    run_folder::{self, RunFolder, STATUS},
    sinks::SinkCounts,
};

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Steps done, those before it was resumed included.
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
    /// The newest checkpoint, if there is one.
    pub checkpoint: Option<PathBuf>,
    /// Whether the last checkpoint that should be there is not.
    pub checkpoint_failed: bool,
    /// Times it was resumed.
    pub resumes: Vec<Resume>,
    /// What became of rows and events in each sink.
    pub sinks: Vec<SinkCounts>,
    /// What went wrong without stopping the run.
    pub faults: Vec<Diagnostic>,
}

impl Report {
    /// That of a run that starts there.
    #[must_use]
    pub fn starting(start: &Start, alerts: AlertsSection) -> Self {
        Self {
            steps: start.step,
            final_loss: start.totals.final_loss,
            alerts: Alerts::resumed(alerts, start.alerts.clone()),
            tokens: start.totals.tokens,
            training_time: Duration::try_from_secs_f64(start.totals.training_s).unwrap_or_default(),
            checkpoint: start.from.clone(),
            resumes: start.resumes.clone(),
            ..Self::default()
        }
    }

    /// Sums up to now, `run` after the run's start.
    #[must_use]
    pub fn totals(&self, run: Duration) -> Totals {
        Totals {
            tokens: self.tokens,
            training_s: self.training_time.as_secs_f64(),
            run_s: run.as_secs_f64(),
            final_loss: self.final_loss,
        }
    }

    /// Training tokens a second; missing if no step was done.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.tokens as f64 / self.training_time.as_secs_f64())
    }

    /// What sinks are told at the end.
    #[must_use]
    pub fn summary(&self) -> Vec<(MetricId, f64)> {
        let entries = [
            (&closing::FINAL_TRAIN_LOSS, self.final_loss),
            (&closing::FINAL_VAL_LOSS, self.final_val_loss),
            (&closing::BEST_VAL_LOSS, self.alerts.best().map(|best| best.loss)),
            (&closing::TOKENS_PER_S, self.tokens_per_s()),
        ];
        entries.into_iter().filter_map(|(metric, value)| Some((metric.into(), value?))).collect()
    }
}

/// Writes `run.json`.
///
/// # Errors
/// The run folder cannot be written.
pub fn write(
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
        "checkpoint": report.checkpoint,
        "resumes": report.resumes,
        "computed": plan.computed(),
        "environment": run_folder::environment(&plan.registry, &plan.used, &plan.device.label),
    })
}

/// A failed run's error with where to go on from. `torn` is the step whose update failed half-way, if one did.
#[must_use]
pub fn with_checkpoint(mut error: Diagnostic, keeper: &Keeper, torn: Option<u64>) -> Diagnostic {
    let mut hints: Vec<String> = error.hint.take().into_iter().collect();
    match keeper.last() {
        Some((_, path)) => {
            hints.push(format!("its last good state is {}: `--resume auto` goes on from it", path.display()));
            hints.extend(torn.map(|step| format!("with `--max-steps {step}` up to the update that failed")));
        }
        None => hints.push("it failed before its first checkpoint".to_string()),
    }
    hints
        .extend(keeper.anomaly().map(|path| format!("the state before it went wrong is {}", path.display())));
    Diagnostic { hint: Some(hints.join("; ")), ..error }
}
