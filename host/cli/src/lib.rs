//! The command line of `altgrad-host`: commands, and the exit code of each.
//!
//! Exit codes: 0 success, 1 the run failed, 2 bad usage or configuration, 3 a plugin was refused or ended the process,
//! 4 device not available or failed, 5 the run ended with NaN or infinity, 130 interrupted, 128 + N ended by signal N.
//! `diff` returns 0 if the runs do not differ and 1 if they do, as diff(1). Each command has a file of its own and
//! returns a [`Diagnostic`] or an exit code.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod about;
mod alerts;
mod bench;
mod blame;
mod casts;
mod check;
mod compare;
mod curvature;
mod data;
mod demo;
mod diff;
mod evaluate;
#[allow(unsafe_code)]
mod ffi;
mod formats;
mod init;
mod install;
mod log;
mod plugins;
mod progress;
mod raw_f32;
mod reference;
mod replay;
mod report;
mod run;
mod run_check;
mod sample;
mod saved_model;
mod scaffold;
mod supervise;
mod sweep;
mod top;
mod vetting;
mod wandb_upload;
mod watch;
mod weights;

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print};
use altgrad_config::DeviceChoice;
use altgrad_engine::device_faults;
use clap::{Args, Parser, Subcommand};

use plugins::PluginsCommand;
use vetting::{Trust, TrustArgs};

/// Trains transformers in low-precision number formats, with plugins loaded at run time.
#[derive(Debug, Parser)]
#[command(name = "altgrad-host", version, long_version = about::BUILD_FACTS.as_str())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows what altgrad does, without a file: trains with fp32, E4M3 and E2M1 on generated text, three seeds each.
    ///
    /// Prints the address of a live page, and in the end the paired comparison. Needs no network and no browser.
    Demo(demo::DemoArgs),
    /// Writes a commented run file for a question: a format or a recipe, an optimizer, a text. An existing file stays
    /// as it is.
    Init(init::InitArgs),
    /// Trains a model as defined by a run file.
    ///
    /// Ctrl-C and SIGTERM end the run after the current step, with a checkpoint; a second signal ends it at once.
    /// SIGUSR1 writes a checkpoint after the current step, and training continues.
    ///
    /// Exit code: 0 success, 1 the run failed or rows of a sink are missing, 2 bad usage or run file, 3 a plugin
    /// failed, 4 the device is not available, 5 the run ended with NaN or infinity in its loss or weights, 130
    /// interrupted, 128 + N ended by signal N.
    #[command(visible_alias = "train")]
    Run(run::RunArgs),
    /// Runs a matrix of run files, each in a process of its own. Completed runs are skipped, interrupted runs are
    /// resumed.
    Sweep(sweep::SweepArgs),
    /// Finds the casts that raise a run's loss, by runs with groups of them undone.
    ///
    /// Each group is tested in two ways over several seeds: the run without the rounding of the group, against the run
    /// as it is, and the unrounded run with only this rounding, against the unrounded run. Groups with an effect are
    /// divided: roles, layer types, layers. Then the steps are searched in which the found casts matter, and cheaper
    /// casts are tried in their place. The same command resumes a search that was stopped or killed.
    Blame(blame::BlameArgs),
    /// Checks a run file against plugins, data and device, reports all its faults, and writes nothing.
    ///
    /// If the run file has no fault, the command prints a summary of the run with its memory and its time. To measure
    /// the time it trains a few steps and discards them.
    Check(ConfigArgs),
    /// Shows plugin libraries.
    #[command(subcommand)]
    Plugins(plugins::PluginsCommand),
    /// Shows number formats and rounds files to them.
    #[command(subcommand)]
    Formats(formats::FormatsCommand),
    /// Applies casts: a format with its rounding, blocks and scales.
    #[command(subcommand)]
    Casts(casts::CastsCommand),
    /// Computes the loss and perplexity of a trained model on its run's data, as evaluations during the run do. Writes
    /// nothing.
    Evaluate(evaluate::EvaluateArgs),
    /// Measures the curvature of the loss at a trained model's weights, and the noise of its gradients; writes nothing.
    ///
    /// The Hessian is that of the unrounded loss; its products with vectors are differences of gradients. In the Fisher
    /// matrix and the gradient noise scale, an example is one sequence.
    Curvature(curvature::CurvatureArgs),
    /// Continues a text with a trained model.
    Sample(sample::SampleArgs),
    /// Prepares token bins from data sets, and shows the contents of bins.
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Writes weights in nanoGPT's or GPT-2's safetensors layout.
    #[command(subcommand)]
    Weights(weights::WeightsCommand),
    /// Measures the time per training step for precisions, formats and metrics.
    Bench(bench::BenchArgs),
    /// Trains along a recorded PyTorch trajectory and reports the differences of losses, gradients and weights.
    Replay(replay::ReplayArgs),
    /// Runs two run files in lockstep on the same batches and names the first layer, operation and step at which they
    /// differ.
    ///
    /// Exit code: 0 if they do not differ, 1 if they differ or a step failed (stderr reports a failure), 2 if they
    /// cannot be compared.
    Diff(diff::DiffArgs),
    /// Compares runs: losses with their spread over seeds, ratios to a baseline, gradients and updates.
    Compare(compare::CompareArgs),
    /// Evaluates alerts on recorded runs.
    #[command(subcommand)]
    Alerts(alerts::AlertsCommand),
    /// Writes a report of runs as one HTML page: comparison, curves, gradient fidelity, codes, failures.
    Report(report::ReportArgs),
    /// Shows runs live in the terminal: one line per run, with losses, alerts and remaining time.
    Top(top::TopArgs),
    /// Serves the report as a live page for a browser on this machine, on 127.0.0.1.
    ///
    /// The address contains a token that only this command prints. The command reads run folders and writes nothing.
    Watch(watch::WatchArgs),
    /// Uploads rows that a run's wandb sinks left on disk, or writes the offline file for `wandb sync`.
    WandbUpload(wandb_upload::WandbUploadArgs),
    /// Prints generated reference pages: run file keys, commands, metrics.
    Reference(reference::ReferenceArgs),
    /// Prints completions for a shell.
    Completions(about::CompletionsArgs),
    /// Writes manual pages, one per command.
    Man(about::ManArgs),
}

/// A run file and its overrides.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// The run file (TOML).
    config: PathBuf,
    /// Overrides a key: `--set train.lr=1e-4`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Device to use instead of `run.device`: auto, cpu, cuda:N or wgpu.
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Run folder instead of `<run.out>/<run.name>`: `run` writes it, `check` checks that it is free, and
    /// `weights export` refuses the option.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
}

impl Command {
    /// The libraries that it may load.
    fn trust(&self) -> Trust {
        match self {
            Self::Run(args) => args.trust(),
            Self::Check(args) => args.trust.into(),
            Self::Sweep(args) => args.trust.into(),
            Self::Blame(args) => args.trust.into(),
            Self::Diff(args) => args.trust.into(),
            Self::Weights(command) => command.trust(),
            Self::Evaluate(args) => args.model.trust(),
            Self::Curvature(args) => args.model.trust(),
            Self::Sample(args) => args.model.trust(),
            Self::WandbUpload(args) => args.trust.into(),
            Self::Casts(command) => command.trust(),
            // These name their libraries on the command line, or load those of the host's folder, or none.
            Self::Plugins(_) | Self::Formats(_) | Self::Bench(_) | Self::Replay(_) => Trust::Named,
            Self::Demo(_)
            | Self::Init(_)
            | Self::Data(_)
            | Self::Alerts(_)
            | Self::Compare(_)
            | Self::Report(_)
            | Self::Top(_)
            | Self::Watch(_) => Trust::Known,
            Self::Reference(_) | Self::Completions(_) | Self::Man(_) => Trust::Known,
        }
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    ffi::keep_freed_pages();
    let command = match Cli::try_parse() {
        Ok(line) => line.command,
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            print::keep_fault(help.print());
            return finished(ExitCode::SUCCESS);
        }
    };
    if let Command::Run(args) = &command
        && let Some(code) = supervise::split(args.supervision())
    {
        return code;
    }
    // A check tests plugins only, so that no limit of the host applies.
    if !matches!(command, Command::Plugins(PluginsCommand::CheckOne(_))) {
        supervise::prepare();
    }
    log::start();
    let execute = || check_threads().and_then(|()| execute(command));
    let code = finished(device_faults::guarded(execute).unwrap_or_else(failed));
    supervise::end();
    code
}

fn failed(diagnostic: Diagnostic) -> ExitCode {
    eprintln!("{diagnostic}");
    ExitCode::from(diagnostic.fault.exit_code())
}

/// The exit code of a command with this one, once its output is written.
fn finished(code: ExitCode) -> ExitCode {
    match print::finish() {
        Err(lost) if code == ExitCode::SUCCESS => failed(lost),
        _ => code,
    }
}

/// Refuses a number of threads that the thread pool would ignore.
fn check_threads() -> Result<(), Diagnostic> {
    const NAME: &str = "RAYON_NUM_THREADS";
    match std::env::var_os(NAME) {
        Some(text)
            if !text.is_empty() && text.to_str().and_then(|text| text.parse::<usize>().ok()).is_none() =>
        {
            Err(Diagnostic::config(format!("{NAME} must be a number of threads, found {text:?}"))
                .at("the environment")
                .hint(format!("unset {NAME} for one thread per core, or set it to 1 or more")))
        }
        _ => Ok(()),
    }
}

fn execute(command: Command) -> Result<ExitCode, Diagnostic> {
    vetting::install(command.trust());
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Blame(args) => blame::run(&args),
        Command::Check(args) => run_check::run(&args),
        Command::Plugins(command) => plugins::run(command),
        Command::Formats(command) => formats::run(command),
        Command::Casts(command) => casts::run(command),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Curvature(args) => curvature::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Data(command) => data::run(command),
        Command::Weights(command) => weights::run(command),
        Command::Bench(args) => bench::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Alerts(command) => alerts::run(&command),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(args),
        Command::WandbUpload(args) => wandb_upload::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Completions(args) => about::completions(&args),
        Command::Man(args) => about::man(&args),
    }
}
