//! `demo`: a first comparison without a file. fp32, E4M3 and E2M1 with three seeds each, a live page, and the paired
//! differences.

use std::{fs, io, path::PathBuf, process::ExitCode};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, interrupt, println,
};
use altgrad_config::Source;
use altgrad_engine::setup::ReadyRun;
use altgrad_sweep::{LauncherChoice, SweepOptions};
use clap::Args;

use super::{compare, sweep::gpu_limit, watch::LivePage};

/// `altgrad-host demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// New folder of the demonstration's run files and runs.
    #[arg(long, value_name = "DIR", default_value = "altgrad-demo")]
    out: PathBuf,
    /// Steps of each run.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(10..))]
    steps: u32,
    /// Number of simultaneous runs. Default: 2, or 1 on a single core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

pub(super) fn run(args: &DemoArgs) -> Result<ExitCode, Diagnostic> {
    let (matrix, runs) = (args.out.join("demo.toml"), args.out.join("runs"));
    write(args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cores.min(2) as u16);
    let options = SweepOptions {
        launcher: LauncherChoice::Local,
        out: None,
        jobs: Some(jobs.into()),
        gpus: gpu_limit(None),
        threads: None,
        quiet: false,
        check: false,
        only: Vec::new(),
    };
    println!("fp32, E4M3 and E2M1 with three seeds each: 9 runs of {} steps.", args.steps);
    println!("The page at this address shows them:");
    let page = LivePage::beside(&runs, true);
    let check_run = |config, source: &Source| ReadyRun::build(config, source).map(drop);
    let results = altgrad_sweep::sweep(&matrix, &options, &check_run).inspect_err(|_| {
        // Refused before the first run: nothing is lost, and the same command may start again.
        if !runs.exists() {
            let _ = fs::remove_dir_all(&args.out);
        }
    })?;
    drop(page);
    let host = std::env::args().next().unwrap_or_else(|| "altgrad-host".into());
    let (matrix, runs_shown) = (matrix.display(), runs.display());
    if results.stopped {
        eprintln!("interrupted: `{host} sweep {matrix}` resumes the runs");
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    if !results.all_well() {
        println!("{}", results.text());
        eprintln!("not all runs are done and healthy: `{host} sweep {matrix}` makes the missing ones");
        return Ok(ExitCode::from(Fault::Run.exit_code()));
    }
    compare::print_table(&runs)?;
    println!("\nNext:");
    println!("  {host} watch {runs_shown}    # the page again: curves, gradients and codes of the runs");
    println!(
        "  {host} init --recipe nvfp4    # a commented run file of your own; also --format, --optimizer, --text FILE"
    );
    println!("  {host} sweep {matrix}    # after adding seeds or formats to it: makes the missing runs");
    Ok(ExitCode::SUCCESS)
}

/// Writes the run file and the matrix into a new folder.
fn write(args: &DemoArgs) -> Result<(), Diagnostic> {
    let failed = |error: io::Error| {
        Diagnostic::run(format!("the demonstration cannot be written ({error})")).at(args.out.display())
    };
    if let Some(parent) = args.out.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::create_dir(&args.out).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Diagnostic::config("the folder exists already")
            .at(args.out.display())
            .hint("choose another with --out DIR; `altgrad-host sweep DIR/demo.toml` resumes an interrupted demonstration"),
        _ => failed(error),
    })?;
    let base = include_str!("../templates/demo/fp32.toml");
    let base = base.replace("STEPS", &args.steps.to_string());
    let base = base.replace("WARMUP", &(args.steps / 10).to_string());
    fs::write(args.out.join("fp32.toml"), base).map_err(failed)?;
    fs::write(args.out.join("demo.toml"), include_str!("../templates/demo/demo.toml")).map_err(failed)
}
