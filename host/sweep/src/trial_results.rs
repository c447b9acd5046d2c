//! The outcomes by which trials were judged. A trial that continues to a later rung overwrites its run folder, so each
//! judgement's outcome is kept in a file before any trial continues: a restarted sweep makes the same judgements.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_run_folder::folder::RunFolder;

use super::{folder::SweepFolder, outcome::Outcome, task::Task};
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
    ///
    /// # Errors
    /// The file cannot be read or is damaged: trials that went on would be judged by later outcomes.
    pub fn recall(folder: &SweepFolder) -> Result<Self, Diagnostic> {
        let trials = folder.trials();
        let mut outcomes = read(&trials.with_extension("json"))?;
        outcomes.retain(|key, _| {
            key.rsplit_once(AT).is_some_and(|(name, _)| RunFolder::holds_a_run(&trials.join(name)))
        });
        Ok(Self { outcomes, trials })
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

/// The outcomes in a file; none without it.
fn read(path: &Path) -> Result<BTreeMap<String, Outcome>, Diagnostic> {
    let damaged = |error: &dyn std::fmt::Display| {
        Diagnostic::config(format!("the outcomes of trials cannot be read ({error})"))
            .at(path.display())
            .hint("restore it; or delete it and the folder `trials` beside it, and all trials are made again")
    };
    let Some(bytes) = files::read_if_exists(path).map_err(|error| damaged(&error))? else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_slice(&bytes).map_err(|error| damaged(&error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use altgrad_config::RunConfig;
    use altgrad_run_folder::folder::STATUS;

    use super::*;
    use crate::outcome::OutcomeState;

    #[test]
    fn outcomes_are_recalled_and_a_damaged_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = SweepFolder::at(&root.path().join("sweep")).unwrap();
        folder.claim().unwrap();
        let mut config = RunConfig::default();
        config.run.name = "a_lr0.1_s1".into();
        config.run.out = folder.trials().display().to_string();
        let task = folder.task(&config, 4);
        fs::create_dir_all(&task.folder).unwrap();
        fs::write(task.folder.join(STATUS), "{}").unwrap();
        let outcome = Outcome { state: OutcomeState::Completed, steps: 4, ..Outcome::default() };
        let mut results = TrialResults::recall(&folder).unwrap();
        assert_eq!(results.get(&task), None);
        let (tasks, outcomes) = ([task], [outcome]);
        results.keep(&folder, &tasks, &outcomes).unwrap();
        assert_eq!(TrialResults::recall(&folder).unwrap().get(&tasks[0]), Some(&outcomes[0]));
        let file = folder.trials().with_extension("json");
        let text = fs::read(&file).unwrap();
        fs::write(&file, &text[..text.len() / 2]).unwrap();
        let error = TrialResults::recall(&folder).unwrap_err();
        assert!(error.message.starts_with("the outcomes of trials cannot be read ("), "{error}");
        assert_eq!(error.place, Some(file.display().to_string()));
        assert!(error.hint.is_some());
    }
}
