//! Runs in the folder of the search, each in a process of its own, as a sweep makes them.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::RunConfig;
use altgrad_sweep::{
    CheckRun, SweepProgress,
    folder::SweepFolder,
    launch::Launcher,
    outcome::{Outcome, OutcomeState},
};

use crate::{
    cause::Cause,
    lab::{Halt, Losses},
    trial::Setting,
};

/// The runs of a search.
pub struct Runner<'a> {
    /// The run whose loss is explained.
    pub config: &'a RunConfig,
    /// What can be undone in it.
    pub causes: &'a [Cause],
    /// Steps of each run.
    pub steps: u64,
    /// The folder, claimed.
    pub folder: SweepFolder,
    /// Who runs the processes.
    pub launcher: Launcher,
    /// The display.
    pub progress: SweepProgress,
    /// Checks a run file.
    pub check: CheckRun<'a>,
}

impl Runner<'_> {
    /// The run file of a trial.
    fn config(&self, setting: &Setting, seed: u64) -> Result<RunConfig, Diagnostic> {
        let refused = || Diagnostic::config("a rule of a remedy cannot be read");
        let mut config = setting.config(self.config, self.causes).ok_or_else(refused)?;
        config.run.seed = seed;
        config.run.name = format!("{}_s{seed}", setting.name());
        config.run.out = self.folder.path().display().to_string();
        // The final evaluation decides; losses by step are for the reader.
        config.train.eval_interval = 0;
        config.sink.retain(|sink| sink.name == "csv");
        config.checkpoint.keep_best = false;
        config.checkpoint.on_anomaly = false;
        Ok(config)
    }

    /// Writes and checks the run file of a trial.
    fn prepared(&self, setting: &Setting, seed: u64) -> Result<RunConfig, Diagnostic> {
        let config = self.config(setting, seed)?;
        self.folder.check(&config)?;
        self.folder.write(&config)?;
        // Runs that only undo causes are accepted as the run itself is.
        if !setting.rules.is_empty() {
            let (config, source) = altgrad_config::load(&self.folder.task(&config, self.steps).config, &[])?;
            (self.check)(config, &source)?;
        }
        Ok(config)
    }
}

impl Losses for Runner<'_> {
    fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<Option<f64>>, Halt> {
        let mut tasks = Vec::new();
        for (setting, seed) in trials {
            match self.prepared(setting, *seed) {
                Ok(config) => tasks.push(Some(self.folder.task(&config, self.steps))),
                Err(_) if !setting.rules.is_empty() => tasks.push(None),
                Err(fault) => return Err(Halt::Fault(fault)),
            }
        }
        let made: Vec<_> = tasks.iter().flatten().cloned().collect();
        self.progress.begin("runs", &made);
        let ended = self.launcher.run(&made, &mut self.progress).map_err(Halt::Fault)?;
        if ended.stopped {
            return Err(Halt::Stopped);
        }
        let loss = |task: &altgrad_sweep::Task| {
            loss_of(&task.outcome()).ok_or_else(|| {
                let why =
                    ended.failures.get(&task.name).cloned().unwrap_or_else(|| "it has no final loss".into());
                Halt::Fault(
                    Diagnostic::run(format!("a run of the search failed: {why}")).at(task.folder.display()),
                )
            })
        };
        tasks.iter().map(|task| task.as_ref().map(loss).transpose()).collect()
    }
}

/// The loss that counts. A run that diverged has that of its initial weights.
fn loss_of(outcome: &Outcome) -> Option<f64> {
    match outcome.state {
        OutcomeState::Completed => outcome.final_val_loss,
        OutcomeState::Diverged => outcome.initial_val_loss,
        OutcomeState::Missing | OutcomeState::Broken => None,
    }
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("folder", &self.folder).finish_non_exhaustive()
    }
}
