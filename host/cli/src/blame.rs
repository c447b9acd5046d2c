//! `blame`: which casts raise a run's loss.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
    time::{Duration, Instant},
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, interrupt, println};
use altgrad_blame::{
    Options,
    cause::Cause,
    runner::{Fork, Runner},
    trial::Setting,
    verdict::BlameVerdict,
};
use altgrad_config::{RunConfig, Source};
use altgrad_engine::{
    checkpoint::{CheckpointKind, layout},
    setup::ReadyRun,
};
use altgrad_metrics::Role;
use altgrad_report::{
    causes::{self, RECORD},
    run::Run,
};
use altgrad_sweep::{
    SweepProgress,
    folder::SweepFolder,
    launch::{Launcher, Local},
};
use clap::Args;

use super::{sweep::gpu_limit, vetting::TrustArgs};

/// The run file with the confirmed remedy.
const REMEDIED: &str = "remedied.toml";

/// `altgrad-host blame`.
#[derive(Debug, Args)]
pub(super) struct BlameArgs {
    /// The run folder, or a run file.
    run: PathBuf,
    /// Folder of the search. Default: the run's folder or file with `-blame`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs begin with the state at STEP, or at the run's last checkpoint before its first alert. Only casts can be
    /// undone then. Default: with the initial weights.
    #[arg(long, value_name = "STEP|alert")]
    from: Option<Beginning>,
    /// Runs begin at the run's last checkpoint before its training loss departs from that of TWIN, the folder of an
    /// unrounded run with the same seed.
    #[arg(long, value_name = "TWIN", conflicts_with = "from")]
    against: Option<PathBuf>,
    /// Seeds of each comparison: the run's own and those after it.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// The step at which runs end, at most the run's. Default: the run's last.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The most runs that the search makes, or minutes that this command takes, such as 30min.
    #[arg(long, value_name = "RUNS|MINUTES", default_value = "1000")]
    budget: Budget,
    /// Number of simultaneous runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Shows errors and the result only.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

/// Where runs begin.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    Step(u64),
    Alert,
}

impl FromStr for Beginning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "alert" => Ok(Self::Alert),
            _ => text.parse().map(Self::Step).map_err(|_| "it is neither a step nor `alert`".into()),
        }
    }
}

/// The limit of a search.
#[derive(Debug, Clone, Copy)]
enum Budget {
    Runs(usize),
    Minutes(u64),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = match text.strip_suffix("min") {
            Some(minutes) => minutes.trim().parse().map(Self::Minutes),
            None => text.parse().map(Self::Runs),
        };
        read.map_err(|_| "it is neither a number of runs, such as 200, nor of minutes, such as 30min".into())
    }
}

impl Budget {
    fn runs(self) -> usize {
        if let Self::Runs(runs) = self { runs } else { usize::MAX }
    }

    fn deadline(self) -> Option<Instant> {
        let Self::Minutes(minutes) = self else { return None };
        Instant::now().checked_add(Duration::from_secs(minutes.saturating_mul(60)))
    }
}

pub(super) fn run(args: &BlameArgs) -> Result<ExitCode, Diagnostic> {
    let is_folder = args.run.is_dir();
    let file = if is_folder { args.run.join("config.toml") } else { args.run.clone() };
    let (config, source) = altgrad_config::load(&file, &[])?;
    let steps = args.steps.unwrap_or(config.train.max_steps).min(config.train.max_steps);
    let (from, known) = beginning(args, steps)?;
    let mut causes = Cause::all(&config, casts(&config, &source)?);
    if from > 0 {
        // A checkpoint has states and weights as they are stored.
        causes.retain(|cause| matches!(cause, Cause::Cast { .. }));
    }
    if causes.is_empty() {
        return Err(Diagnostic::config("the run rounds nothing, so that nothing can be undone")
            .at(file.display())
            .hint("name a run with casts in [quant], such as weight = \"E5M2\""));
    }
    let out = args.out.clone().unwrap_or_else(|| causes::folder(&args.run));
    let mut folder = SweepFolder::at(&out)?;
    folder.claim()?;
    interrupt::install()?;
    let jobs = usize::from(args.jobs);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (cores / jobs).max(1);
    let gpus = gpu_limit(None);
    if let (false, Some(message)) = (args.quiet, gpus.message(jobs, [config.run.device])) {
        eprintln!("{message}");
    }
    let check = |config, source: &Source| ReadyRun::build(config, source).map(drop);
    let mut runner = Runner {
        config: &config,
        causes: &causes,
        steps,
        fork: known,
        folder,
        launcher: Launcher::Local(Local {
            jobs,
            gpus,
            threads,
            sweep: "blame".into(),
            deadline: args.budget.deadline(),
        }),
        progress: SweepProgress::without_twins(args.quiet),
        check: &check,
    };
    if from > 0 && runner.fork.is_none() {
        runner.fork = runner.fork_at(from)?;
        if runner.fork.is_none() {
            return Ok(unfinished(args.budget));
        }
    }
    let options = Options { seeds: args.seeds, from, steps, budget: args.budget.runs() };
    let verdict = altgrad_blame::blame(&config, causes.clone(), options, &mut runner)?;
    runner.progress.finish();
    println!("{}", verdict.text().trim_end());
    let record = serde_json::to_string_pretty(&verdict)
        .map_err(|error| Diagnostic::run(format!("the result cannot be written ({error})")))?;
    runner.folder.put(&out.join(RECORD), format!("{record}\n").as_bytes())?;
    if let Some(text) = remedied(&config, &causes, &verdict)? {
        runner.folder.put(&out.join(REMEDIED), text.as_bytes())?;
        println!("{} is the run file with the remedy", out.join(REMEDIED).display());
    }
    Ok(if verdict.is_complete { ExitCode::SUCCESS } else { unfinished(args.budget) })
}

/// Says how a search goes on.
fn unfinished(budget: Budget) -> ExitCode {
    if interrupt::requested() {
        eprintln!("interrupted: the same command resumes the search");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    match budget {
        Budget::Runs(runs) => {
            eprintln!(
                "the budget of {runs} runs is spent: the same command with a larger --budget continues"
            );
        }
        Budget::Minutes(minutes) => {
            eprintln!("the budget of {minutes} minutes is spent: the same command continues");
        }
    }
    ExitCode::SUCCESS
}

/// The step at which runs begin, and its checkpoint if the run has it.
fn beginning(args: &BlameArgs, steps: u64) -> Result<(u64, Option<Fork>), Diagnostic> {
    let checkpoints = args.run.join(layout::CHECKPOINTS);
    let listed = layout::list(&checkpoints, CheckpointKind::Step).unwrap_or_default();
    let newest = |step: u64| listed.iter().rev().find(|(own, _)| *own <= step).cloned();
    let read = || Run::read(&args.run).map_err(|error| Diagnostic::config(error).at(args.run.display()));
    let found = match (args.from, &args.against) {
        (None, None) => None,
        (Some(Beginning::Step(step)), _) if step >= steps => {
            return Err(Diagnostic::config(format!("runs would begin at step {step} and end at {steps}"))
                .at("--from")
                .hint("name an earlier step"));
        }
        (Some(Beginning::Step(step)), _) => {
            return Ok((step, newest(step).filter(|(own, _)| *own == step).map(|found| fork(args, found))));
        }
        (Some(Beginning::Alert), _) => {
            let alert = read()?.events.iter().find(|event| event.is_alert()).map(|event| event.step);
            let step = alert.ok_or_else(|| {
                Diagnostic::config("the run has raised no alert")
                    .at(args.run.display())
                    .hint("name the folder of a run with an alert, or a step in place of `alert`")
            })?;
            newest(step)
        }
        (None, Some(twin)) => {
            let step = altgrad_sweep::departure(&args.run, twin)?.ok_or_else(|| {
                Diagnostic::config("the run's training loss never departs from its twin's")
                    .at(twin.display())
                    .hint("leave out --against: runs begin with the initial weights then")
            })?;
            newest(step)
        }
    };
    let found = found.filter(|(step, _)| *step > 0 && *step < steps);
    if found.is_none() && (args.from.is_some() || args.against.is_some()) {
        eprintln!("the run has no checkpoint that early: runs begin with the initial weights");
    }
    Ok(found.map_or((0, None), |found| (found.0, Some(fork(args, found)))))
}

fn fork(args: &BlameArgs, (step, checkpoint): (u64, PathBuf)) -> Fork {
    let initial_loss = altgrad_sweep::outcome::Outcome::read(&args.run).initial_val_loss;
    Fork { step, checkpoint, initial_loss }
}

/// The operands of the products of a linear layer.
const PRODUCTS: [[Role; 2]; 3] = [
    [Role::Activation, Role::Weight],
    [Role::Grad, Role::WeightDgrad],
    [Role::GradWgrad, Role::ActivationWgrad],
];

/// The casts of a run, in all phases of its schedule. Those of a product with a transform are one.
fn casts(config: &RunConfig, source: &Source) -> Result<BTreeSet<(Vec<Role>, String)>, Diagnostic> {
    let mut casts = BTreeSet::new();
    let phases = config.quant.schedule.iter().map(|phase| &phase.quant);
    for quant in [&config.quant].into_iter().chain(phases) {
        let mut config = config.clone();
        config.quant = quant.clone();
        config.quant.schedule.clear();
        let ready = ReadyRun::build(config, source)?;
        let sites = ready.state.quant.plan.sites();
        casts.extend(sites.iter().map(|site| {
            let product =
                PRODUCTS.iter().find(|roles| site.transform.is_some() && roles.contains(&site.role));
            let is_cast =
                |role: &Role| sites.iter().any(|other| (other.role, &other.layer) == (*role, &site.layer));
            let both = |roles: &[Role; 2]| roles.iter().copied().filter(is_cast).collect::<Vec<_>>();
            let roles = product.map_or_else(|| vec![site.role], both);
            (roles, site.layer.clone())
        }));
    }
    Ok(casts)
}

/// The run file with the confirmed remedy.
fn remedied(
    config: &RunConfig,
    causes: &[Cause],
    verdict: &BlameVerdict,
) -> Result<Option<String>, Diagnostic> {
    let Some(remedy) = verdict.remedy() else { return Ok(None) };
    let setting = match remedy.rules.is_empty() {
        true => Setting::without(verdict.members()),
        false => Setting { rules: remedy.rules.clone(), ..Setting::default() },
    };
    setting.config(config, causes).map(|config| config.to_toml()).transpose()
}
