//! Sweeps: a matrix of runs over a base run file. Each run is done once, however often the sweep is stopped, killed or
//! restarted.
//!
//! [`matrix`] reads the file, [`combine`] makes its combinations and their run files, [`folder`] keeps the run file of
//! a started run, [`launch`] runs processes, [`outcome`] reads the outcome of a run, `search` finds rates by trials
//! ([`successive_halving`] the best, [`bisection`] the largest stable one; [`rates`] lists the tried values), and
//! [`result`] is the result of the sweep. Nothing is written before every combination has been checked.
//!
//! The state of a sweep is its run folders (and `trial_results`): a run is completed if its folder's status is, and a
//! started run resumes from its last checkpoint.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod axes;
pub mod bisection;
mod check;
pub mod combine;
pub mod folder;
pub mod launch;
pub mod matrix;
mod names;
pub mod outcome;
mod progress;
pub mod rates;
pub mod result;
mod search;
pub mod successive_halving;
mod task;
mod trial_results;
mod twins;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub use progress::SweepProgress;
pub use search::without_measurements;
pub use task::Task;
pub use twins::departure;

use altgrad_base::{diagnostic::Diagnostic, eprintln, interrupt};
use altgrad_config::{RunConfig, Source};
use bisection::Stable;
use combine::Combination;
use folder::{RESULT, SweepFolder};
use launch::{Ended, GpuLimit, Launcher, Local, Slurm};
use matrix::SweepMatrix;
use outcome::Outcome;
use result::{Results, RunResult, WorseThanTwin};
use successive_halving::Tuned;
use trial_results::TrialResults;
use twins::Twins;

/// Checks a run file against everything its run needs: plugins, data, device.
pub type CheckRun<'a> = &'a dyn Fn(RunConfig, &Source) -> Result<(), Diagnostic>;

/// Options of a sweep.
#[derive(Debug)]
pub struct SweepOptions {
    /// Folder of the sweep's folder; the matrix's if missing.
    pub out: Option<PathBuf>,
    /// Processes at a time. Default: one here, and on a cluster as many as have room.
    pub jobs: Option<usize>,
    /// Processes at a time on a GPU of this machine.
    pub gpus: GpuLimit,
    /// Threads of each; the cores divided by `jobs` if missing. A sweep keeps those it began with.
    pub threads: Option<usize>,
    /// Who runs the processes.
    pub launcher: LauncherChoice,
    /// Shows errors and the tables only.
    pub quiet: bool,
    /// Checks everything and writes nothing.
    pub check: bool,
    /// Parts of the names of the runs that are made; all if empty.
    pub only: Vec<String>,
}

/// Who runs the processes.
#[derive(Debug, Clone)]
pub enum LauncherChoice {
    /// This machine.
    Local,
    /// A cluster, through `sbatch`.
    Slurm {
        /// Further options of `sbatch`.
        options: Vec<String>,
        /// True to wait for the job.
        wait: bool,
    },
}

/// A sweep under way.
#[derive(Debug)]
pub struct Sweep {
    matrix: SweepMatrix,
    path: PathBuf,
    combinations: Vec<Combination>,
    only: Vec<String>,
    folder: SweepFolder,
    launcher: Launcher,
    threads: usize,
    progress: SweepProgress,
    tuned: Vec<Tuned>,
    stable: Vec<Stable>,
    failures: BTreeMap<String, String>,
    trial_results: TrialResults,
}

/// The reason why a sweep stops.
#[derive(Debug)]
enum Halt {
    /// The user stopped it.
    Stopped,
    /// A job runs the batch, and no process waits for it.
    Submitted(String),
    /// Something is wrong.
    Fault(Diagnostic),
}

impl From<Diagnostic> for Halt {
    fn from(fault: Diagnostic) -> Self {
        Self::Fault(fault)
    }
}

/// Completes a matrix whose combinations `check_run` accepts.
///
/// # Errors
/// The matrix or a combination is refused, before anything is written; or the sweep's folder cannot be written. Runs
/// that fail are in the results.
pub fn sweep(path: &Path, options: &SweepOptions, check_run: CheckRun<'_>) -> Result<Results, Diagnostic> {
    let matrix = SweepMatrix::read(path)?;
    let combinations = matrix.combinations()?;
    check_only(&matrix, &combinations, &options.only)?;
    let folder = SweepFolder::at(&folder_of(&matrix, options.out.as_deref())?)?;
    let threads = threads(&folder, options)?;
    let launcher = launcher(&folder, &matrix.name, threads, options);
    let baseline = matrix.compare.as_ref().and_then(|compare| compare.baseline.as_deref());
    let twins = Twins::new(&combinations, folder.path(), baseline);
    let mut sweep = Sweep {
        matrix,
        path: path.to_path_buf(),
        combinations,
        only: options.only.clone(),
        folder,
        launcher,
        threads,
        progress: SweepProgress::new(options.quiet, twins),
        tuned: Vec::new(),
        stable: Vec::new(),
        failures: BTreeMap::new(),
        trial_results: TrialResults::default(),
    };
    let devices = sweep.check(check_run)?;
    if let (false, Launcher::Local(local)) = (options.quiet, &sweep.launcher)
        && let Some(message) = local.gpus.message(local.jobs, devices)
    {
        eprintln!("{message}");
    }
    if options.check {
        return Ok(sweep.results());
    }
    sweep.folder.claim()?;
    // Not before: until here nothing is lost by simply stopping.
    interrupt::install()?;
    sweep.trial_results = TrialResults::recall(&sweep.folder)?;
    let halted = sweep.work();
    sweep.progress.finish();
    let mut results = sweep.results();
    match halted {
        Ok(()) => {}
        Err(Halt::Stopped) => results.stopped = true,
        Err(Halt::Submitted(job)) => results.submitted = Some(job),
        Err(Halt::Fault(fault)) => return Err(fault),
    }
    sweep.record(&results)?;
    Ok(results)
}

/// The folder of a matrix's runs; `out` is the folder of the sweep's folder, instead of the matrix's.
///
/// # Errors
/// As [`SweepMatrix::read`], or the base run file is needed and cannot be read.
pub fn folder_of(matrix: &SweepMatrix, out: Option<&Path>) -> Result<PathBuf, Diagnostic> {
    let out = match (out, &matrix.out) {
        (Some(out), _) => out.to_path_buf(),
        (None, Some(out)) => out.clone(),
        (None, None) => PathBuf::from(altgrad_config::load(&matrix.base, &[])?.0.run.out),
    };
    Ok(out.join(&matrix.name))
}

/// Every part of a name occurs in a run's name, and no trials depend on the choice.
fn check_only(matrix: &SweepMatrix, combinations: &[Combination], only: &[String]) -> Result<(), Diagnostic> {
    let is_unknown = |part: &&String| !combinations.iter().any(|run| run.name.contains(part.as_str()));
    if let Some(part) = only.iter().find(is_unknown) {
        let names = combinations.iter().take(3).map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Diagnostic::config(format!(
            "`--only {part}`: no run of the matrix has this in its name"
        ))
        .at(matrix.source.path().display())
        .hint(format!("`--check` lists all names; the first are {names}")));
    }
    if !only.is_empty() && (matrix.tune.is_some() || matrix.stable.is_some()) {
        return Err(Diagnostic::config("`--only` chooses runs, and this matrix also makes trials")
            .at(matrix.source.path().display())
            .hint("run the whole matrix, or put the combination into a matrix file of its own"));
    }
    Ok(())
}

fn launcher(folder: &SweepFolder, name: &str, threads: usize, options: &SweepOptions) -> Launcher {
    match &options.launcher {
        LauncherChoice::Local => {
            let jobs = options.jobs.unwrap_or(1);
            let gpus = options.gpus;
            Launcher::Local(Local { jobs, gpus, threads, sweep: name.to_string(), deadline: None })
        }
        LauncherChoice::Slurm { options: sbatch, wait } => Launcher::Slurm(Slurm {
            name: name.to_string(),
            jobs: options.jobs,
            threads,
            options: sbatch.clone(),
            folder: folder.launcher(),
            wait: *wait,
        }),
    }
}

/// Threads of each run: those the sweep began with, so that no run's last bits depend on when it was done.
fn threads(folder: &SweepFolder, options: &SweepOptions) -> Result<usize, Diagnostic> {
    let began = folder.record()?.and_then(|record| record.threads).map(usize::from);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = options.threads.unwrap_or((cores / options.jobs.unwrap_or(1)).max(1));
    Ok(match began {
        Some(began) => {
            if options.threads.is_some_and(|threads| threads != began) {
                eprintln!("the sweep started with {began} threads per run and keeps them");
            }
            began
        }
        None => wanted,
    })
}

impl Sweep {
    /// The run file of a run of the matrix.
    fn resolve(
        &self,
        combination: &Combination,
        rate: Option<&(String, f64)>,
    ) -> Result<(RunConfig, Source), Diagnostic> {
        let sets = match rate {
            Some((key, value)) => self.matrix.with_rate(combination, key, *value)?,
            None => Vec::new(),
        };
        self.matrix.resolve(combination, &sets, self.folder.path(), &combination.name)
    }

    /// Trials, then runs.
    fn work(&mut self) -> Result<(), Halt> {
        if let Some(tune) = self.matrix.tune.clone() {
            self.tune(&tune)?;
        }
        if let Some(stable) = self.matrix.stable.clone() {
            self.find_stable(&stable)?;
        }
        let configs = self.configs()?;
        for config in configs.iter().flatten() {
            self.folder.check(config)?;
        }
        let runs: Vec<(RunConfig, u64)> =
            configs.into_iter().flatten().map(|config| (config.clone(), config.train.max_steps)).collect();
        self.batch("runs", &runs)?;
        Ok(())
    }

    /// True if this start of the sweep makes the run.
    fn is_wanted(&self, combination: &Combination) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| combination.name.contains(part.as_str()))
    }

    /// The run file of each combination; none where no rate was found for it, or it is not wanted.
    fn configs(&self) -> Result<Vec<Option<RunConfig>>, Diagnostic> {
        let one = |combination: &Combination| {
            if !self.is_wanted(combination) {
                return Ok(None);
            }
            if combination.tune.is_none() {
                return self.resolve(combination, None).map(|(config, _)| Some(config));
            }
            let tuned = self.tuned.iter().find(|tuned| tuned.group == combination.group);
            let rate = tuned.and_then(|tuned| Some((tuned.key.clone(), tuned.chosen?)));
            rate.map(|rate| self.resolve(combination, Some(&rate)).map(|(config, _)| config)).transpose()
        };
        self.combinations.iter().map(one).collect()
    }

    /// Runs up to their steps, and returns their outcomes.
    fn batch(&mut self, phase: &str, configs: &[(RunConfig, u64)]) -> Result<Vec<Outcome>, Halt> {
        let tasks: Vec<Task> =
            configs.iter().map(|(config, until)| self.folder.task(config, *until)).collect();
        let left: Vec<Task> =
            tasks.iter().filter(|task| self.trial_results.get(task).is_none()).cloned().collect();
        for (config, until) in configs {
            if left.iter().any(|task| task.name == config.run.name && task.until == *until) {
                self.folder.check(config)?;
                self.folder.write(config)?;
            }
        }
        if !left.is_empty() {
            self.record(&self.results())?;
            self.progress.begin(phase, &left);
            let Ended { failures, stopped, submitted } = self.launcher.run(&left, &mut self.progress)?;
            self.failures.extend(failures);
            if stopped {
                return Err(Halt::Stopped);
            }
            if let Some(job) = submitted {
                return Err(Halt::Submitted(job));
            }
        }
        let outcome = |task: &Task| self.trial_results.get(task).cloned().unwrap_or_else(|| task.outcome());
        let outcomes: Vec<Outcome> = tasks.iter().map(outcome).collect();
        self.trial_results.keep(&self.folder, &tasks, &outcomes)?;
        Ok(outcomes)
    }

    /// The results of the sweep so far.
    fn results(&self) -> Results {
        let runs = self.combinations.iter().map(|combination| {
            let folder = self.folder.path().join(&combination.name);
            let tuned = self.tuned.iter().find(|tuned| tuned.group == combination.group);
            let outcome = Outcome::read(&folder);
            let failure = self.failures.get(&combination.name).cloned();
            let worse = self.progress.twins.worse(&combination.name);
            RunResult {
                name: combination.name.clone(),
                group: combination.group.clone(),
                axes: combination.values.iter().cloned().collect(),
                set: combination.set_keys(),
                rate: tuned.and_then(|tuned| tuned.chosen),
                failure,
                worse_than_twin: worse.map(|(twin, worse)| WorseThanTwin {
                    twin: twin.to_string(),
                    step: worse.step,
                    ratio: worse.ratio,
                }),
                outcome,
                folder,
                is_wanted: self.is_wanted(combination),
            }
        });
        let is_run = |name: &String| self.combinations.iter().any(|combination| combination.name == *name);
        Results {
            name: self.matrix.name.clone(),
            matrix: self.path.clone(),
            threads: self.threads,
            runs: runs.collect(),
            tuned: self.tuned.clone(),
            stable: self.stable.clone(),
            compare: self.matrix.compare.clone(),
            trial_failures: self.failures.clone().into_iter().filter(|(name, _)| !is_run(name)).collect(),
            stopped: false,
            submitted: None,
        }
    }

    fn record(&self, results: &Results) -> Result<(), Diagnostic> {
        let text = serde_json::to_string_pretty(results)
            .map_err(|error| Diagnostic::run(format!("the results cannot be written ({error})")))?;
        self.folder.put(&self.folder.path().join(RESULT), format!("{text}\n").as_bytes())
    }
}
