//! The alerts of a recorded run, raised again from its records: with the thresholds of its run file, or with others.
//!
//! Each kind of alert is raised once, at the first step of its condition; cooldowns are ignored. Metrics that a run
//! did not measure raise none here either. A final loss of the whole validation split is not replayed: the alerts of
//! the run saw that of a sample at that step, which is in no file.

use std::{fs, time::Duration};

use altgrad_alerts::{Alert, AlertFacts, Alerts, Severity};
use altgrad_config::{AlertsSection, FullEvalChoice};
use altgrad_metrics::{
    MetricId,
    families::training::{LOSS, VAL_LOSS},
};
use rayon::prelude::*;

use super::{records::Records, run::Run};

/// A run's alerts, and the losses that decide its outcome.
#[derive(Debug, Clone)]
pub struct AlertReplay {
    /// One a kind, in the order of their steps.
    pub alerts: Vec<Alert>,
    /// Training loss by step, nats per token.
    pub losses: Vec<(u64, f64)>,
}

impl AlertReplay {
    /// Its warnings and errors, without information.
    pub fn warnings(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.kind.severity() > Severity::Information)
    }

    /// Shows a run's records to its alerts. `set` replaces keys of `[alerts]`.
    ///
    /// # Errors
    /// One sentence: a file is missing or cannot be read, or a key of `[alerts]` is wrong.
    pub fn of(run: &Run, set: &toml::Table) -> Result<Self, String> {
        let files = run.config.csv_files();
        let mut records = Records::open(&run.path.join(&files.metrics), &run.path.join(&files.layers))?;
        let mut alerts = Alerts::new(section(run, set)?).with_facts(facts(run));
        let mut replay = Self { alerts: Vec::new(), losses: Vec::new() };
        let [loss, val_loss] = [&LOSS, &VAL_LOSS].map(MetricId::from);
        let whole_split_at = whole_split_at(run);
        while let Some(mut record) = records.next_record()? {
            if whole_split_at == Some(record.step) {
                record.values.retain(|(id, _)| *id != val_loss);
            }
            let of_step = record.values.iter().find(|(id, _)| *id == loss);
            replay.losses.extend(of_step.map(|(_, loss)| (record.step, *loss)));
            for alert in alerts.see(&record, Duration::ZERO) {
                if replay.alerts.iter().all(|known| known.kind != alert.kind) {
                    replay.alerts.push(alert);
                }
            }
        }
        Ok(replay)
    }
}

/// The replays of runs, on all threads.
#[must_use]
pub fn all(runs: &[Run], set: &toml::Table) -> Vec<Result<AlertReplay, String>> {
    runs.par_iter().map(|run| AlertReplay::of(run, set)).collect()
}

/// `[alerts]` of the run's resolved run file, with the keys of `set` in place of its own.
fn section(run: &Run, set: &toml::Table) -> Result<AlertsSection, String> {
    let path = run.path.join("config.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("`config.toml` cannot be read: {error}"))?;
    let config: toml::Table = text.parse().map_err(|error| format!("`config.toml`: {error}"))?;
    let mut section = match config.get("alerts") {
        Some(toml::Value::Table(section)) => section.clone(),
        _ => toml::Table::new(),
    };
    section.extend(set.clone());
    section.try_into().map_err(|error: toml::de::Error| format!("[alerts]: {}", error.message()))
}

/// The step whose held-out loss alone is that of the whole validation split; none if all or no losses are.
fn whole_split_at(run: &Run) -> Option<u64> {
    let always = run.config.get("train.full_eval") == Some(FullEvalChoice::Always.name());
    run.status.steps.filter(|_| run.status.final_is_full && !always)
}

fn facts(run: &Run) -> AlertFacts {
    let warmup = run.config.get("train.warmup_steps").and_then(|steps| steps.parse().ok());
    AlertFacts { warmup_steps: warmup.unwrap_or_default(), unigram_entropy: run.status.unigram_entropy }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_alerts::AlertKind;

    use super::*;

    /// Held-out losses of samples that fall, and a final one of the whole split, far above.
    #[test]
    fn the_final_loss_of_the_whole_split_is_not_compared_with_those_of_samples() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("metrics.csv", "step,train/loss,val/loss\n0,5,5.5\n1,4,4.5\n2,3,3.5\n3,,9.0\n");
        let alerts = |evaluations: &str, kind: &str| {
            let train = format!("[train]\nfull_eval = {evaluations:?}\n[alerts]\ndivergence_patience = 1\n");
            write("config.toml", &train);
            let status = format!(
                r#"{{"status": "completed", "steps": 3, "final_val_loss": 9.0, "final_evaluation": {kind:?}}}"#
            );
            write("run.json", &status);
            let replay = AlertReplay::of(&Run::read(folder.path()).unwrap(), &toml::Table::new()).unwrap();
            replay.alerts.iter().map(|alert| (alert.kind, alert.step)).collect::<Vec<_>>()
        };
        assert_eq!(alerts("auto", "full"), []);
        for (evaluations, kind) in [("auto", "sample"), ("always", "full")] {
            assert_eq!(alerts(evaluations, kind), [(AlertKind::Divergence, 3)], "{evaluations} {kind}");
        }
    }
}
