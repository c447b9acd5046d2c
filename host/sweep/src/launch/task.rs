//! Input and output of a launcher: the runs of a batch, and the end of the batch.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use crate::outcome::Outcome;

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
    /// The outcome in the run folder.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::read(&self.folder)
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
