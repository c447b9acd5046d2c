//! A run to be done by a process of its own.

use std::{ffi::OsString, path::PathBuf};

use altgrad_config::DeviceChoice;

use super::outcome::Outcome;

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
    /// The checkpoint of another run from which it continues, in place of its own first step.
    pub fork: Option<PathBuf>,
    /// The device that its run file names.
    pub device: DeviceChoice,
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
        match &self.fork {
            Some(checkpoint) => {
                let mut resume = OsString::from("--resume=");
                resume.push(checkpoint);
                arguments.extend([resume, "--resume-anyway".into()]);
            }
            None => arguments.push("--resume=auto".into()),
        }
        arguments.push("--progress=json".into());
        arguments.extend(["--guard".into(), self.log.clone().into()]);
        if self.until < self.steps {
            arguments.extend(["--max-steps".into(), self.until.to_string().into()]);
        }
        arguments
    }
}
