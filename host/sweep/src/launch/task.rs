//! Input and output of a launcher: the runs of a batch, and the end of the batch.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use crate::{
    outcome::{Outcome, OutcomeState},
    progress::SweepProgress,
};

/// A run to be done.
#[derive(Debug, Clone)]
pub struct Task {
    /// Name of the run.
    pub name: String,
    /// Its resolved run file.
    pub config: PathBuf,
    /// Its run folder, from the run file.
    pub folder: PathBuf,
    /// The file for the output of its processes.
    pub log: PathBuf,
    /// The step to stop at.
    pub until: u64,
    /// The steps in its run file.
    pub steps: u64,
}

impl Task {
    /// The outcome in the run folder, for a run up to [`Self::until`].
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::read(&self.folder).up_to(self.until)
    }

    /// True if nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome().is_done(self.until)
    }

    /// Arguments of the process that starts or resumes it.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["run".into(), self.config.clone().into()];
        arguments.extend(["--resume=auto".into(), "--progress=json".into()]);
        arguments.extend(["--guard".into(), self.log.clone().into()]);
        if self.until < self.steps {
            arguments.extend(["--max-steps".into(), self.until.to_string().into()]);
        }
        arguments
    }
}

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
    /// Records the end of a run's process. `reason` names that of one that neither completed nor diverged. A run that diverged is no
    /// failure: the same command would not try it again.
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
