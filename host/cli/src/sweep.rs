//! `sweep`: a matrix of runs, and their results.

use std::{path::PathBuf, process::ExitCode, sync::OnceLock};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, interrupt, println,
};
use altgrad_config::{DeviceChoice, Source};
use altgrad_engine::{device::ComputeDevice, setup::ReadyRun};
use altgrad_sweep::{LauncherChoice, SweepOptions, folder::RESULT, launch::GpuLimit, matrix::SweepMatrix};
use clap::{Args, ValueEnum};

use super::{vetting::TrustArgs, watch::LivePage};

/// `altgrad-host sweep`.
#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// The matrix file (TOML): a base run file and the keys that vary.
    matrix: PathBuf,
    /// Launcher of the processes.
    #[arg(long, default_value = "local")]
    launcher: LauncherName,
    /// Number of simultaneous runs. Default: 1; with slurm, no limit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Number of those that compute on one GPU. Default: 1, because several take turns; with NVIDIA's MPS as many as
    /// `--jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs_per_gpu: Option<u16>,
    /// Threads of each run. Default: the cores divided by the jobs. A resumed sweep keeps its number of threads.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Runs only the runs whose names contain PART; may be repeated. The other runs keep their state.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Parent of the sweep's folder, instead of the matrix's `out`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With slurm: submits the runs and does not wait. The same command collects the results later.
    #[arg(long)]
    no_wait: bool,
    /// With slurm: an option of sbatch, such as `--sbatch=--time=1:00:00`; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Checks every combination against plugins, data and device, shows the state of the runs, and writes nothing.
    #[arg(long)]
    check: bool,
    /// Shows errors and the tables only.
    #[arg(long)]
    quiet: bool,
    /// Serves the sweep's live page during the sweep, as `watch` does. Its address goes to standard error.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

/// Launcher of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LauncherName {
    /// Processes on this machine.
    Local,
    /// One array job on a cluster, through sbatch.
    Slurm,
}

/// The limit of runs on a GPU of this machine.
pub(super) fn gpu_limit(at_once: Option<u16>) -> GpuLimit {
    fn auto_is_gpu() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = || ComputeDevice::open(DeviceChoice::Auto).is_ok_and(|device| !device.is_cpu());
        *FOUND.get_or_init(found)
    }
    GpuLimit::new(at_once.map(usize::from), auto_is_gpu)
}

pub(super) fn run(args: &SweepArgs) -> Result<ExitCode, Diagnostic> {
    let launcher = match args.launcher {
        LauncherName::Slurm if args.jobs_per_gpu.is_some() => {
            return Err(Diagnostic::config("`--jobs-per-gpu` is for the launcher local")
                .hint("remove it: sbatch's options give each run its GPU"));
        }
        LauncherName::Slurm => LauncherChoice::Slurm { options: args.sbatch.clone(), wait: !args.no_wait },
        LauncherName::Local if args.no_wait || !args.sbatch.is_empty() => {
            return Err(Diagnostic::config("`--no-wait` and `--sbatch` are for the launcher slurm")
                .hint("add --launcher slurm"));
        }
        LauncherName::Local => LauncherChoice::Local,
    };
    let options = SweepOptions {
        launcher,
        out: args.out.clone(),
        jobs: args.jobs.map(usize::from),
        gpus: match args.launcher {
            LauncherName::Local => gpu_limit(args.jobs_per_gpu),
            LauncherName::Slurm => GpuLimit::default(),
        },
        threads: args.threads.map(usize::from),
        quiet: args.quiet,
        check: args.check,
        only: args.only.clone(),
    };
    let check_run = |config, source: &Source| ReadyRun::build(config, source).map(drop);
    let folder = match args.watch {
        true => altgrad_sweep::folder_of(&SweepMatrix::read(&args.matrix)?, args.out.as_deref())?,
        false => PathBuf::new(),
    };
    let _page = LivePage::beside(&folder, args.watch);
    let results = altgrad_sweep::sweep(&args.matrix, &options, &check_run)?;
    println!("{}", results.text());
    Ok(if args.check {
        ExitCode::SUCCESS
    } else if results.stopped {
        eprintln!("interrupted: the same command resumes the sweep");
        ExitCode::from(interrupt::EXIT_CODE)
    } else if let Some(job) = &results.submitted {
        println!(
            "job {job} is still running: `squeue -j {job}` shows it, and the same command collects when it is done"
        );
        ExitCode::SUCCESS
    } else if results.all_well() {
        ExitCode::SUCCESS
    } else {
        eprintln!("{} {RESULT} has the details", results.what_is_left());
        ExitCode::from(Fault::Run.exit_code())
    })
}
