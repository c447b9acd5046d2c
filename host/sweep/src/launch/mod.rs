//! Launchers: they run the processes of a batch of runs, `local` on this machine or `slurm` on a cluster.
//!
//! Each run is `altgrad-host run` in a separate process, so that a crash of one harms no other. It holds its log file
//! locked as long as it lives: a process that outlives a killed sweep and the one that a new sweep starts for the same
//! run can never write at the same time.

mod ended;
mod gpus;
mod local;
mod slurm;

pub use ended::Ended;
pub use gpus::GpuLimit;
pub use local::Local;
pub use slurm::Slurm;

use altgrad_base::diagnostic::Diagnostic;

use super::{progress::SweepProgress, task::Task};

/// Who runs processes.
#[derive(Debug)]
pub enum Launcher {
    /// This machine.
    Local(Local),
    /// A cluster.
    Slurm(Slurm),
}

impl Launcher {
    /// Completes the tasks.
    ///
    /// # Errors
    /// Processes cannot be watched; a run that fails is no error.
    pub fn run(&self, tasks: &[Task], progress: &mut SweepProgress) -> Result<Ended, Diagnostic> {
        match self {
            Self::Local(local) => local.run(tasks, progress),
            Self::Slurm(slurm) => slurm.run(tasks, progress),
        }
    }
}
