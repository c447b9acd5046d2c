//! Completion of the folder of a run whose process ended early: the final status in `run.json`.

use std::path::Path;

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_plugin_api::AlertLevel;
use serde_json::{Map, Value};

pub use crate::claim::Claim;
use crate::{
    events::{EVENTS, Event, EventLog, unix_s},
    folder::{RunFolder, STATUS},
    record::{Progress, RunStatus},
};

/// The end of a process that did not complete its folder.
#[derive(Debug, Clone)]
pub struct End<'a> {
    /// [`RunStatus::Failed`] or [`RunStatus::Interrupted`].
    pub status: RunStatus,
    /// The reason, one sentence.
    pub error: &'a str,
    /// The progress of the process: its step, its loss and its times.
    pub progress: Progress,
}

impl Claim {
    /// Removes the files of a run that never started; earlier files of the folder stay.
    pub fn discard(self) {
        if let Ok(folder) = RunFolder::taken_over(self) {
            folder.discard();
        }
    }

    /// Writes the end of the run and its progress into `run.json`, and the end into `events.jsonl`. If the run had
    /// already ended, its status stays and the error is added to its faults. All other values stay as last written.
    ///
    /// # Errors
    /// Another process has taken the folder, or it cannot be written.
    pub fn finish(self, end: &End<'_>) -> Result<(), Diagnostic> {
        let folder = RunFolder::taken_over(self)?;
        let mut record = read(&folder.path().join(STATUS));
        let Some(values) = record.as_object_mut() else {
            return Err(Diagnostic::run("the run's status is damaged").at(folder.path().display()));
        };
        if values.get("status").is_none_or(|status| status == "running") {
            let status = serde_json::to_value(end.status).unwrap_or_default();
            values.insert("status".into(), status);
            values.insert("error".into(), end.error.into());
            take_progress(values, &end.progress);
        } else if let Some(faults) = values.entry("faults").or_insert(Value::Array(Vec::new())).as_array_mut()
        {
            faults.push(end.error.into());
        }
        values.insert("updated_unix_s".into(), unix_s().into());
        let mut events = EventLog::open(folder.path().join(EVENTS));
        let (level, kind) = match end.status {
            RunStatus::Interrupted => (AlertLevel::INFO, "interrupted"),
            _ => (AlertLevel::ERROR, "failed"),
        };
        events.write(&Event::new(end.progress.step, level, kind, end.error));
        folder.write_last(STATUS, format!("{record:#}\n").as_bytes())?;
        events.finish().map_or(Ok(()), Err)
    }

    /// True if `run.json` has the status running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        read(&self.path.join(STATUS)).get("status").is_some_and(|status| status == "running")
    }
}

/// Brings the values of `run.json` that each step changes up to date.
fn take_progress(values: &mut Map<String, Value>, progress: &Progress) {
    let known = values.get("steps").and_then(Value::as_u64).unwrap_or_default();
    // A process that ended before its first step has made no progress.
    if progress.step <= known {
        return;
    }
    let tokens = progress.tokens_per_s.map(|rate| (rate * progress.training_s).round() as u64);
    values.insert("steps".into(), progress.step.into());
    values.insert("final_train_loss".into(), progress.loss.into());
    values.insert("training_s".into(), progress.training_s.into());
    values.insert("tokens_per_s".into(), progress.tokens_per_s.into());
    values.extend(tokens.map(|tokens| ("tokens".into(), tokens.into())));
}

/// The contents of the status file; an empty object if there are none.
fn read(path: &Path) -> Value {
    let bytes = files::read(path).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Object(Map::new()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn claim(path: &Path) -> Claim {
        RunFolder::claim(path).unwrap().as_claim().clone()
    }

    #[test]
    fn a_run_that_goes_on_has_failed_and_one_that_ended_keeps_its_status() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let claim = claim(&path);
        let loss = Some(2.5);
        let rate = Some(50.0);
        let progress = Progress { step: 7, loss, training_s: 2.0, tokens_per_s: rate, ..Progress::default() };
        let end = End { status: RunStatus::Failed, error: "it crashed", progress };
        for (text, status, error, faults) in [
            (r#"{"status": "running", "steps": 5}"#, "failed", Value::from("it crashed"), Value::Null),
            (r#"{"status": "completed"}"#, "completed", Value::Null, Value::from(vec!["it crashed"])),
        ] {
            fs::write(path.join(STATUS), text).unwrap();
            claim.clone().finish(&end).unwrap();
            let said: Value = serde_json::from_slice(&fs::read(path.join(STATUS)).unwrap()).unwrap();
            assert_eq!((&said["status"], &said["error"], &said["faults"]), (&status.into(), &error, &faults));
            let steps = if status == "failed" { Value::from(7) } else { Value::Null };
            let due = if status == "failed" { [2.5.into(), 100.into()] } else { [Value::Null, Value::Null] };
            assert_eq!(
                (&said["steps"], [&said["final_train_loss"], &said["tokens"]]),
                (&steps, due.each_ref())
            );
        }
        let events = fs::read_to_string(path.join(EVENTS)).unwrap();
        assert!(
            events.contains(r#""step":7,"level":"error","kind":"failed","text":"it crashed""#),
            "{events}"
        );
    }

    #[test]
    fn a_run_that_never_started_leaves_nothing_and_a_folder_that_is_taken_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("runs/exp");
        let claim = claim(&path);
        let other = RunFolder::reopen(&path).unwrap();
        claim.clone().discard();
        assert!(path.exists(), "another process has it");
        drop(other);
        claim.discard();
        assert!(!root.path().join("runs").exists());
    }
}
