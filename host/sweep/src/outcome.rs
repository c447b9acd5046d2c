//! The facts of a run folder that a sweep needs: `run.json`, and for runs of earlier versions the first evaluation in
//! `events.jsonl`. Missing or half-written events are `None`; a damaged `run.json` is the run's error.

use std::{collections::BTreeMap, path::Path};

use altgrad_base::files;
use altgrad_run_folder::{
    events::EVENTS,
    folder::RunFolder,
    record::{Environment, RunRecord, RunStatus},
};
use serde::{Deserialize, Serialize};

/// The key of the data in [`Outcome::made_with`].
pub(crate) const DATA: &str = "data";

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeState {
    /// Not begun.
    #[default]
    Missing,
    /// Completed to the requested step.
    Completed,
    /// Ended by losses or gradients that were not finite, or with such a loss: a resume would end the same way.
    Diverged,
    /// Started and not completed: running, stopped, killed or failed. It can be resumed.
    Broken,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The progress.
    pub state: OutcomeState,
    /// Steps done.
    pub steps: u64,
    /// Held-out loss before the first step, nats per token.
    pub initial_val_loss: Option<f64>,
    /// Held-out loss of the final weights, nats per token.
    pub final_val_loss: Option<f64>,
    /// The lowest one.
    pub best_val_loss: Option<f64>,
    /// True if the run was found to diverge.
    pub diverged: bool,
    /// The error of a failed run.
    pub error: Option<String>,
    /// The faults that did not stop it.
    pub faults: Vec<String>,
    /// True if an alert was raised.
    #[serde(skip)]
    pub has_alerts: bool,
    /// Host, device, threads, libraries (sha256 by path) and data (fingerprint) it was made with.
    #[serde(skip)]
    pub made_with: BTreeMap<String, String>,
}

impl Outcome {
    /// The outcome in a run folder.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let begun = Self { state: OutcomeState::Broken, ..Self::default() };
        let run = match RunRecord::read(folder) {
            Ok(Some(run)) => run,
            Ok(None) if RunFolder::holds_a_run(folder) => return begun,
            Ok(None) => return Self::default(),
            Err(error) => return Self { error: Some(error.message), ..begun },
        };
        let state = match run.status {
            // A loss that is not finite, of an earlier version.
            RunStatus::Completed if run.final_val_loss.is_none() => OutcomeState::Diverged,
            RunStatus::Completed => OutcomeState::Completed,
            RunStatus::NotFinite => OutcomeState::Diverged,
            // Of an earlier version.
            RunStatus::Failed if run.not_finite => OutcomeState::Diverged,
            _ => OutcomeState::Broken,
        };
        Self {
            state,
            steps: run.steps,
            // Earlier versions do not record it.
            initial_val_loss: run.initial_val_loss.or_else(|| initial_loss(folder)),
            final_val_loss: run.final_val_loss,
            best_val_loss: run.best_val_loss,
            diverged: run.diverged,
            error: run.error,
            faults: run.faults,
            has_alerts: !run.alerts.is_empty(),
            made_with: made_with(run.environment, run.data_fingerprint),
        }
    }

    /// The outcome for a run that continues to step `until`: one that was completed before that step is not completed.
    /// Its process may have failed before it wrote a status of its own.
    #[must_use]
    pub(crate) fn up_to(mut self, until: u64) -> Self {
        if self.state == OutcomeState::Completed && self.steps < until {
            self.state = OutcomeState::Broken;
        }
        self
    }

    /// True if nothing is left to do up to step `until`.
    #[must_use]
    pub fn is_done(&self, until: u64) -> bool {
        match self.state {
            OutcomeState::Completed => self.steps >= until,
            OutcomeState::Diverged => true,
            OutcomeState::Missing | OutcomeState::Broken => false,
        }
    }

    /// True if it has completed or failed, and was not interrupted.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, OutcomeState::Completed | OutcomeState::Diverged)
    }

    /// The reason why the stability of a completed run is unknown.
    #[must_use]
    pub(crate) fn unjudged(&self) -> Option<String> {
        let is_unknown = self.state == OutcomeState::Completed && self.initial_val_loss.is_none();
        let what = "its held-out loss before the first step is missing, so its stability is unknown";
        let hint = "delete its folder, and the next start makes it again";
        let said = std::iter::once(what).chain(self.faults.iter().map(String::as_str)).chain([hint]);
        is_unknown.then(|| said.collect::<Vec<_>>().join("; "))
    }

    /// True if the training was stable: it was completed, its held-out loss is finite and below that of the initial
    /// weights, and it was not found to diverge.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        let learned =
            self.final_val_loss.zip(self.initial_val_loss).is_some_and(|(last, first)| last < first);
        self.state == OutcomeState::Completed && !self.diverged && learned
    }
}

fn made_with(environment: Environment, data: Option<String>) -> BTreeMap<String, String> {
    let Environment { host_version, device, threads, plugins, .. } = environment;
    let facts = [("host_version", host_version), ("device", device), ("threads", threads.to_string())];
    let facts = facts.map(|(key, value)| (key.to_string(), value));
    let libraries = plugins.into_iter().map(|library| (library.path.display().to_string(), library.sha256));
    let data = data.map(|fingerprint| (DATA.to_string(), fingerprint));
    facts.into_iter().chain(libraries).chain(data).collect()
}

/// The first evaluation: it is the best so far, and events say those.
fn initial_loss(folder: &Path) -> Option<f64> {
    #[derive(Deserialize)]
    struct Line {
        step: u64,
        kind: String,
        value: Option<f64>,
    }
    let text = files::read(&folder.join(EVENTS)).ok()?;
    let lines =
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    lines.filter(|line| line.step == 0 && line.kind == BEST).find_map(|line| line.value)
}

/// The kind of the event of a new lowest held-out loss.
const BEST: &str = "best";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use altgrad_run_folder::folder::STATUS;

    use super::*;

    #[test]
    fn a_folder_says_how_far_its_run_came() {
        let rows = [
            ("", OutcomeState::Broken, false),
            ("{\"status\": \"comp", OutcomeState::Broken, false),
            ("[1]", OutcomeState::Broken, false),
            (r#"{"status": "running", "steps": 9}"#, OutcomeState::Broken, false),
            (r#"{"status": "interrupted", "steps": 9}"#, OutcomeState::Broken, false),
            (
                r#"{"status": "failed", "steps": 9, "diverged": false, "error": "x"}"#,
                OutcomeState::Broken,
                false,
            ),
            (r#"{"status": "failed", "steps": 2, "diverged": true}"#, OutcomeState::Broken, false),
            // Its loss was finite again when it was killed.
            (
                r#"{"status": "failed", "diverged": true, "not_finite": false, "alerts": {"nan_loss": 1}}"#,
                OutcomeState::Broken,
                false,
            ),
            (r#"{"status": "failed", "diverged": true, "not_finite": true}"#, OutcomeState::Diverged, true),
            (r#"{"status": "not_finite", "steps": 2}"#, OutcomeState::Diverged, true),
            (r#"{"status": "completed", "steps": 9, "final_val_loss": 2.5}"#, OutcomeState::Completed, true),
            (r#"{"status": "completed", "steps": 8, "final_val_loss": 2.5}"#, OutcomeState::Completed, false),
            (r#"{"status": "completed", "steps": 9, "final_val_loss": null}"#, OutcomeState::Diverged, true),
        ];
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Outcome::read(folder.path()), Outcome::default());
        for (text, state, done) in rows {
            fs::write(folder.path().join(STATUS), text).unwrap();
            let outcome = Outcome::read(folder.path());
            assert_eq!((outcome.state, outcome.is_done(9)), (state, done), "{text}");
            assert!(!outcome.is_stable());
            assert_eq!(outcome.up_to(9).has_ended(), done, "{text}");
        }
        fs::write(folder.path().join(STATUS), "{\"status\": \"comp").unwrap();
        let error = Outcome::read(folder.path()).error.unwrap();
        assert!(error.starts_with("the status of the run cannot be read ("), "{error}");
    }

    #[test]
    fn the_initial_loss_is_that_of_the_record_and_without_one_stability_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let read = |initial: &str| {
            let text = format!(
                r#"{{"status": "completed", "final_val_loss": 2.5, {initial} "data_fingerprint": "0a", "faults": ["disk full"]}}"#
            );
            fs::write(folder.path().join(STATUS), text).unwrap();
            Outcome::read(folder.path())
        };
        let known = read(r#""initial_val_loss": 5.5,"#);
        assert!(known.is_stable() && known.unjudged().is_none());
        assert_eq!(known.made_with[DATA], "0a");
        let unknown = read("");
        assert!(unknown.unjudged().unwrap().contains("is unknown; disk full; delete its folder"));
    }

    #[test]
    fn stable_is_finite_lower_than_before_and_not_diverged() {
        let folder = tempfile::tempdir().unwrap();
        let events = "{\"step\":0,\"kind\":\"alert\",\"value\":1}\n{\"step\":0,\"kind\":\"best\",\"value\":5.5}\n\
            {\"step\":9,\"kind\":\"best\",\"value\":2.5}\nhalf";
        fs::write(folder.path().join(EVENTS), events).unwrap();
        for (loss, diverged, stable) in
            [("2.5", false, true), ("2.5", true, false), ("5.5", false, false), ("null", false, false)]
        {
            let text = format!(
                r#"{{"status": "completed", "steps": 9, "final_val_loss": {loss}, "diverged": {diverged}}}"#
            );
            fs::write(folder.path().join(STATUS), text).unwrap();
            let outcome = Outcome::read(folder.path());
            assert_eq!(outcome.initial_val_loss, Some(5.5));
            assert_eq!(outcome.is_stable(), stable, "{loss} {diverged}");
        }
    }
}
