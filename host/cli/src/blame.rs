//! `blame`: which casts raise a run's loss.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, interrupt, println};
use altgrad_blame::{Options, cause::Cause, runner::Runner, trial::Setting, verdict::BlameVerdict};
use altgrad_config::{RunConfig, Source};
use altgrad_engine::setup::ReadyRun;
use altgrad_metrics::Role;
use altgrad_sweep::{
    SweepProgress,
    folder::SweepFolder,
    launch::{Launcher, Local},
};
use clap::Args;

use super::vetting::TrustArgs;

/// The record of the result.
const RECORD: &str = "blame.json";
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
    /// Seeds of each comparison: the run's own and those after it.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// Steps of each run, at most the run's. Default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The most runs that the search makes.
    #[arg(long, value_name = "RUNS", default_value_t = 1000)]
    budget: usize,
    /// Number of simultaneous runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Shows errors and the result only.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

pub(super) fn run(args: &BlameArgs) -> Result<ExitCode, Diagnostic> {
    let is_folder = args.run.is_dir();
    let file = if is_folder { args.run.join("config.toml") } else { args.run.clone() };
    let (config, source) = altgrad_config::load(&file, &[])?;
    let steps = args.steps.unwrap_or(config.train.max_steps).min(config.train.max_steps);
    let causes = Cause::all(&config, casts(&config, &source)?);
    if causes.is_empty() {
        return Err(Diagnostic::config("the run rounds nothing, so that nothing can be undone")
            .at(file.display())
            .hint("name a run with casts in [quant], such as weight = \"E5M2\""));
    }
    let out = args.out.clone().unwrap_or_else(|| beside(&args.run));
    let mut folder = SweepFolder::at(&out)?;
    folder.claim()?;
    interrupt::install()?;
    let jobs = usize::from(args.jobs);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let check = |config, source: &Source| ReadyRun::build(config, source).map(drop);
    let mut runner = Runner {
        config: &config,
        causes: &causes,
        steps,
        folder,
        launcher: Launcher::Local(Local { jobs, threads: (cores / jobs).max(1), sweep: "blame".into() }),
        progress: SweepProgress::without_twins(args.quiet),
        check: &check,
    };
    let options = Options { seeds: args.seeds, steps, budget: args.budget };
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
    if verdict.is_stopped {
        eprintln!("interrupted: the same command resumes the search");
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    if !verdict.is_complete {
        eprintln!(
            "the budget of {} runs is spent: the same command with a larger --budget continues",
            args.budget
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The casts of a run, in all phases of its schedule.
fn casts(config: &RunConfig, source: &Source) -> Result<BTreeSet<(Role, String)>, Diagnostic> {
    let mut casts = BTreeSet::new();
    let phases = config.quant.schedule.iter().map(|phase| &phase.quant);
    for quant in [&config.quant].into_iter().chain(phases) {
        let mut config = config.clone();
        config.quant = quant.clone();
        config.quant.schedule.clear();
        let ready = ReadyRun::build(config, source)?;
        let sites = ready.state.quant.plan.sites();
        if let Some(site) = sites.iter().find(|site| site.transform.is_some()) {
            let message = format!(
                "the casts of `{}` have a transform, so that none can be undone by itself",
                site.layer
            );
            return Err(Diagnostic::config(message)
                .at(source.path().display())
                .hint("set quant.transform = \"none\" in a copy of the run file, and name it"));
        }
        casts.extend(sites.iter().map(|site| (site.role, site.layer.clone())));
    }
    Ok(casts)
}

/// The folder beside a run.
fn beside(run: &Path) -> PathBuf {
    let stem = run.file_stem().unwrap_or_default().to_string_lossy();
    run.with_file_name(format!("{stem}-blame"))
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
