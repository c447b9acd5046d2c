//! Runs in the folder of the search, each in a process of its own, as the trials of a sweep.
//!
//! A run begins with its initial weights, or at a checkpoint ([`Fork`]). Its weights and checkpoints are removed when
//! it is done: its losses are the result.

use std::{fs, path::PathBuf};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::{CastTrigger, RunConfig};
use altgrad_run_folder::folder::{CHECKPOINTS, WEIGHTS};
use altgrad_sweep::{
    CheckRun, SweepProgress, Task,
    folder::SweepFolder,
    launch::Launcher,
    outcome::{Outcome, OutcomeState},
};

use crate::{
    cause::Cause,
    lab::{Losses, TrialLoss},
    trial::Setting,
};

/// A checkpoint at which runs begin.
#[derive(Debug, Clone)]
pub struct Fork {
    /// Its step.
    pub step: u64,
    /// Its folder, or the run folder whose last one it is.
    pub checkpoint: PathBuf,
    /// Held-out loss of the initial weights of its run, nats per token.
    pub initial_loss: Option<f64>,
}

/// The runs of a search.
pub struct Runner<'a> {
    /// The run whose loss is explained.
    pub config: &'a RunConfig,
    /// What can be undone in it.
    pub causes: &'a [Cause],
    /// The step at which runs end.
    pub steps: u64,
    /// Where they begin, if not with initial weights.
    pub fork: Option<Fork>,
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
    /// Trains the run itself up to a step, for its checkpoint there; `None` if it is not done.
    ///
    /// # Errors
    /// The run cannot be made.
    pub fn fork_at(&mut self, step: u64) -> Result<Option<Fork>, Diagnostic> {
        let mut config = self.plain();
        config.run.name = format!("up-to-{step}");
        self.folder.check(&config)?;
        self.folder.write(&config)?;
        let task = self.folder.task(&config, step);
        if self.finished(std::slice::from_ref(&task))?.contains(&TrialLoss::Missing) {
            return Ok(None);
        }
        let initial_loss = task.outcome().initial_val_loss;
        Ok(Some(Fork { step, checkpoint: task.folder, initial_loss }))
    }

    /// The run file without its measurements, and with an evaluation of the initial weights and of the final ones only,
    /// unless an alert switches casts.
    fn plain(&self) -> RunConfig {
        let mut config = self.config.clone();
        altgrad_sweep::without_measurements(&mut config);
        config.run.out = self.folder.trials().display().to_string();
        config.checkpoint.every = 0;
        if config.quant.schedule.iter().all(|phase| matches!(phase.trigger, CastTrigger::At(_))) {
            config.train.eval_interval = config.train.max_steps;
        }
        config
    }

    /// The run file of a trial.
    fn config(&self, setting: &Setting, seed: u64) -> Result<RunConfig, Diagnostic> {
        let refused = || Diagnostic::config("a rule of a remedy cannot be read");
        let mut config = setting.config(&self.plain(), self.causes).ok_or_else(refused)?;
        let from = self.fork.as_ref().map_or(0, |fork| fork.step);
        config.run.seed = seed;
        config.run.name = format!("{}_{from}-{}_s{seed}", setting.name(), self.steps);
        Ok(config)
    }

    /// Writes and checks the run file of a trial.
    fn prepared(&self, setting: &Setting, seed: u64) -> Result<Task, Diagnostic> {
        let config = self.config(setting, seed)?;
        self.folder.check(&config)?;
        self.folder.write(&config)?;
        let fork = self.fork.as_ref().map(|fork| fork.checkpoint.clone());
        let task = Task { fork, ..self.folder.task(&config, self.steps) };
        // Runs that only undo causes are accepted as the run itself is.
        if !setting.rules.is_empty() {
            let (config, source) = altgrad_config::load(&task.config, &[])?;
            (self.check)(config, &source)?;
        }
        if task.fork.is_some() && task.folder.exists() && !task.is_done() {
            // It begins again at the checkpoint; its log is locked as long as a process of an earlier start lives.
            let failed = |error: std::io::Error| {
                Diagnostic::run(format!("a run of an earlier start cannot be removed ({error})"))
                    .at(task.folder.display())
            };
            let _held = files::hold(&task.log).map_err(failed)?;
            fs::remove_dir_all(&task.folder).map_err(failed)?;
        }
        Ok(task)
    }

    /// The losses of tasks, after the missing ones have run.
    fn finished(&mut self, tasks: &[Task]) -> Result<Vec<TrialLoss>, Diagnostic> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.progress.begin("runs", tasks);
        let ended = self.launcher.run(tasks, &mut self.progress)?;
        let initial = self.fork.as_ref().and_then(|fork| fork.initial_loss);
        let loss = |task: &Task| {
            let outcome = task.outcome();
            let failed = |why: String| {
                Diagnostic::run(format!("a run of the search failed: {why}")).at(task.folder.display())
            };
            match (loss_of(&outcome, initial), ended.failures.get(&task.name)) {
                (Some(loss), _) => Ok(TrialLoss::Known(loss)),
                (None, Some(why)) => Err(failed(why.clone())),
                (None, None) if outcome.has_ended() => {
                    Err(failed("it diverged, and the loss of its initial weights is unknown".into()))
                }
                (None, None) => Ok(TrialLoss::Missing),
            }
        };
        tasks.iter().map(loss).collect()
    }
}

impl Losses for Runner<'_> {
    fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<TrialLoss>, Diagnostic> {
        let mut tasks = Vec::new();
        for (setting, seed) in trials {
            match self.prepared(setting, *seed) {
                Ok(task) => tasks.push(Some(task)),
                Err(_) if !setting.rules.is_empty() => tasks.push(None),
                Err(fault) => return Err(fault),
            }
        }
        let accepted: Vec<Task> = tasks.iter().flatten().cloned().collect();
        let losses = self.finished(&accepted)?;
        for (task, loss) in accepted.iter().zip(&losses) {
            if matches!(loss, TrialLoss::Known(_)) {
                // What cannot be removed only takes space.
                let _ = fs::remove_dir_all(task.folder.join(CHECKPOINTS));
                let _ = fs::remove_file(task.folder.join(WEIGHTS));
            }
        }
        let mut losses = losses.into_iter();
        let of = |task: Option<Task>| task.and_then(|_| losses.next()).unwrap_or(TrialLoss::Refused);
        Ok(tasks.into_iter().map(of).collect())
    }
}

/// The loss that counts. A run that diverged has that of its initial weights, and so has one that ends above it:
/// differences of such losses between seeds would hide every effect.
fn loss_of(outcome: &Outcome, initial: Option<f64>) -> Option<f64> {
    let initial = outcome.initial_val_loss.or(initial);
    match outcome.state {
        OutcomeState::Completed => {
            outcome.final_val_loss.map(|loss| initial.map_or(loss, |initial| loss.min(initial)))
        }
        OutcomeState::Diverged => initial,
        OutcomeState::Missing | OutcomeState::Broken => None,
    }
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("folder", &self.folder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_diverge_count_as_their_initial_weights() {
        let outcome = |state, final_val_loss, initial_val_loss| Outcome {
            state,
            final_val_loss,
            initial_val_loss,
            ..Outcome::default()
        };
        let completed = |last, first| loss_of(&outcome(OutcomeState::Completed, Some(last), first), None);
        assert_eq!(completed(2.5, Some(5.5)), Some(2.5));
        assert_eq!(completed(49.2, Some(5.5)), Some(5.5));
        assert_eq!(completed(49.2, None), Some(49.2));
        let diverged = outcome(OutcomeState::Diverged, None, None);
        assert_eq!((loss_of(&diverged, Some(5.5)), loss_of(&diverged, None)), (Some(5.5), None));
    }
}
