//! Launchers: who runs the processes of a batch of runs, `local` on this machine or `slurm` on a cluster.
//!
//! Each run is `altgrad-host run` in a process of its own, so that a crash of one harms no other. It holds its log file
//! locked as long as it lives: a process that outlives a killed sweep and the one that a new sweep starts for the same run
//! can never write at the same time.

mod local;
mod slurm;

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

pub use local::Local;
pub use slurm::Slurm;

use super::{board::Board, outcome::Outcome};
use crate::diagnostic::Diagnostic;

/// A run to be done.
#[derive(Debug, Clone)]
pub struct Task {
    /// Name of the run.
    pub name: String,
    /// Its resolved run file.
    pub config: PathBuf,
    /// Its run folder, as the run file says it.
    pub folder: PathBuf,
    /// What its processes print.
    pub log: PathBuf,
    /// The step to stop at.
    pub until: u64,
    /// The steps its run file asks for.
    pub steps: u64,
}

impl Task {
    /// What the run folder says.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::read(&self.folder)
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome().is_done(self.until)
    }

    /// Arguments of the process that does it, or goes on with it.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["run".into(), self.config.clone().into()];
        arguments.extend(["--resume=auto".into(), "--guard".into(), self.log.clone().into()]);
        if self.until < self.steps {
            arguments.extend(["--max-steps".into(), self.until.to_string().into()]);
        }
        arguments
    }
}

/// How a batch ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Why a run is not done, by its name.
    pub failures: BTreeMap<String, String>,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// The job that does it now, if nobody waits for it.
    pub submitted: Option<String>,
}

/// Who runs processes.
#[derive(Debug)]
pub enum Launcher {
    /// This machine.
    Local(Local),
    /// A cluster.
    Slurm(Slurm),
}

impl Launcher {
    /// Does what is left to do of the tasks.
    ///
    /// # Errors
    /// Processes cannot be watched; a run that fails is no error.
    pub fn run(&self, tasks: &[Task], board: &mut Board) -> Result<Ended, Diagnostic> {
        match self {
            Self::Local(local) => local.run(tasks, board),
            Self::Slurm(slurm) => slurm.run(tasks, board),
        }
    }
}
