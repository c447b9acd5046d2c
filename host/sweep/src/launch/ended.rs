//! The end of a batch of runs.

use std::collections::BTreeMap;

use crate::{
    outcome::{Outcome, OutcomeState},
    progress::SweepProgress,
    task::Task,
};

/// The end of a batch.
#[derive(Debug, Default)]
pub struct Ended {
    /// The reasons why runs are not done, by their names.
    pub failures: BTreeMap<String, String>,
    /// True if the user stopped it.
    pub stopped: bool,
    /// The job that runs it now, if no process waits for it.
    pub submitted: Option<String>,
}

impl Ended {
    /// Records the end of a run's process. `reason` names that of one that neither completed nor diverged. A run that
    /// diverged is no failure: the same command would not try it again.
    pub(super) fn close(
        &mut self,
        task: &Task,
        progress: &mut SweepProgress,
        reason: impl FnOnce(&Outcome) -> String,
    ) {
        let outcome = task.outcome();
        match outcome.state {
            OutcomeState::Completed => progress.ended(task, &outcome, None),
            OutcomeState::Diverged => {
                let error = outcome.error.as_deref();
                progress.ended(task, &outcome, Some(error.unwrap_or("its held-out loss is not finite")));
            }
            OutcomeState::Missing | OutcomeState::Broken if self.stopped => {}
            OutcomeState::Missing | OutcomeState::Broken => self.fail(task, progress, reason(&outcome)),
        }
    }

    /// Records a failure.
    pub(super) fn fail(&mut self, task: &Task, progress: &mut SweepProgress, reason: String) {
        progress.ended(task, &task.outcome(), Some(&reason));
        self.failures.insert(task.name.clone(), reason);
    }
}
