//! The outcomes by which trials were judged. A trial that continues to a later rung overwrites its run folder, so each
//! judgement's outcome is kept in a file before any trial continues: a restarted sweep makes the same judgements.

use std::{collections::BTreeMap, path::PathBuf};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_run_folder::folder::RunFolder;

use super::{folder::SweepFolder, launch::Task, outcome::Outcome};
/// Between a trial's name and its step.
const AT: &str = "@";

/// Outcomes of trials, by name and step.
#[derive(Debug, Default)]
pub(super) struct TrialResults {
    outcomes: BTreeMap<String, Outcome>,
    trials: PathBuf,
}

impl TrialResults {
    /// Results of earlier starts of the sweep. A trial whose folder was deleted runs again.
    pub fn recall(folder: &SweepFolder) -> Self {
        let trials = folder.trials();
        let bytes = files::read(&trials.with_extension("json")).ok();
        let kept = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut outcomes: BTreeMap<String, Outcome> = kept.unwrap_or_default();
        outcomes.retain(|key, _| {
            key.rsplit_once(AT).is_some_and(|(name, _)| RunFolder::holds_a_run(&trials.join(name)))
        });
        Self { outcomes, trials }
    }

    /// The outcome by which a trial was judged at the task's step.
    pub fn get(&self, task: &Task) -> Option<&Outcome> {
        self.outcomes.get(&key(task))
    }

    /// Keeps the outcomes of those tasks that are trials and done.
    pub fn keep(
        &mut self,
        folder: &SweepFolder,
        tasks: &[Task],
        outcomes: &[Outcome],
    ) -> Result<(), Diagnostic> {
        let done = tasks
            .iter()
            .zip(outcomes)
            .filter(|(task, outcome)| task.folder.starts_with(&self.trials) && outcome.is_done(task.until));
        self.outcomes.extend(done.map(|(task, outcome)| (key(task), outcome.clone())));
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&self.outcomes)
            .map_err(|error| Diagnostic::run(format!("the trials cannot be written ({error})")))?;
        folder.put(&self.trials.with_extension("json"), text.as_bytes())
    }
}

fn key(task: &Task) -> String {
    format!("{}{AT}{}", task.name, task.until)
}
