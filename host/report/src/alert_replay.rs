//! The alerts of a recorded run, raised again from its records: with the thresholds of its run file, or with others.
//!
//! Each kind of alert is raised once, at the first step of its condition; cooldowns are ignored. Metrics that a run
//! did not measure raise none here either.

use std::{fs, time::Duration};

use altgrad_alerts::{Alert, Alerts, RunFacts, Severity};
use altgrad_config::AlertsSection;
use altgrad_metrics::{MetricId, families::training::LOSS};
use rayon::prelude::*;

use super::{records::Records, run::Run};

/// A run's alerts, and the losses that decide its outcome.
#[derive(Debug, Clone)]
pub struct Replay {
    /// One a kind, in the order of their steps.
    pub alerts: Vec<Alert>,
    /// Training loss by step, nats per token.
    pub losses: Vec<(u64, f64)>,
}

impl Replay {
    /// Its warnings and errors, without information.
    pub fn warnings(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.kind.severity() > Severity::Information)
    }

    /// Shows a run's records to its alerts. `set` replaces keys of `[alerts]`.
    ///
    /// # Errors
    /// One sentence: a file is missing or cannot be read, or a key of `[alerts]` is wrong.
    pub fn of(run: &Run, set: &toml::Table) -> Result<Self, String> {
        let file =
            |option: &str, default: &str| run.path.join(run.config.csv_path(option).unwrap_or(default));
        let (metrics, layers) = (file("path", "metrics.csv"), file("layers_path", "layers.csv"));
        let mut records = Records::open(&metrics, &layers)?;
        let mut alerts = Alerts::new(section(run, set)?).with_facts(facts(run));
        let mut replay = Self { alerts: Vec::new(), losses: Vec::new() };
        let loss = MetricId::from(&LOSS);
        while let Some(record) = records.next_record()? {
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
pub fn all(runs: &[Run], set: &toml::Table) -> Vec<Result<Replay, String>> {
    runs.par_iter().map(|run| Replay::of(run, set)).collect()
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

fn facts(run: &Run) -> RunFacts {
    let warmup = run.config.get("train.warmup_steps").and_then(|steps| steps.parse().ok());
    RunFacts { warmup_steps: warmup.unwrap_or_default(), unigram_entropy: run.status.unigram_entropy }
}
