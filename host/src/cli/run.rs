//! `run` and `check`: a run file to a plan, and a plan to a run.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::{ConfigArgs, progress::Progress};
use crate::{
    checkpoint::{Chosen, Start, resume::AUTO},
    config::{self, RunConfig, Source},
    device::ComputeDevice,
    diagnostic::{Diagnostic, Fault},
    files,
    plan::Plan,
    run_folder::RunFolder,
    sinks::SinkCounts,
    train::{self, interrupt, run::WEIGHTS, status::Report},
};

/// `altgrad-host run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Stops after that many steps, those before it was resumed included; the schedule stays the run file's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Goes on from a checkpoint: the newest sound one of the run folder, or the one whose folder is given, of a run
    /// folder its last. Without an earlier part of the run, `auto` starts anew.
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = AUTO)]
    resume: Option<String>,
    /// Goes on although run file, data or plugins are not the checkpoint's, and records the difference.
    #[arg(long, requires = "resume")]
    resume_anyway: bool,
    /// Shows errors only.
    #[arg(long)]
    quiet: bool,
    /// For programs that start runs: waits until no other run holds this file, and holds it.
    #[arg(long, value_name = "FILE", hide = true)]
    guard: Option<PathBuf>,
    /// For programs that start runs: ends as on Ctrl-C when standard input ends.
    #[arg(long, hide = true)]
    while_input: bool,
}

/// The run file and its overrides.
pub(super) fn load(args: &ConfigArgs) -> Result<(RunConfig, Source), Diagnostic> {
    let (mut config, source) = config::load(&args.config, &args.set)?;
    if let Some(device) = args.device {
        // Asked here for the sake of the place.
        ComputeDevice::open(device).map_err(|error| error.at(format!("--device {device}")))?;
        config.run.device = device;
    }
    Ok((config, source))
}

/// The plan a command line asks for, run folder aside.
pub(super) fn plan(args: &ConfigArgs) -> Result<Plan, Diagnostic> {
    let (config, source) = load(args)?;
    Plan::new(config, &source)
}

/// The plan and its run folder, which is free.
fn plan_in_folder(args: &ConfigArgs) -> Result<(Plan, PathBuf), Diagnostic> {
    let (config, source) = load(args)?;
    let folder = folder(args, &config);
    RunFolder::check(&folder)?;
    Ok((Plan::new(config, &source)?, folder))
}

fn folder(args: &ConfigArgs, config: &RunConfig) -> PathBuf {
    args.out.clone().unwrap_or_else(|| PathBuf::from(&config.run.out).join(&config.run.name))
}

/// The same where the run may go on from a checkpoint: and where it starts.
fn plan_from(args: &RunArgs, resume: &str) -> Result<(Plan, PathBuf, Start), Diagnostic> {
    let (mut config, source) = load(&args.config)?;
    let folder = folder(&args.config, &config);
    let chosen = Chosen::find(resume, &folder)?;
    chosen.inherit(&mut config, &source);
    let mut plan = Plan::new(config, &source)?;
    let start = chosen.restore(&mut plan, args.resume_anyway)?;
    Ok((plan, folder, start))
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Diagnostic> {
    if args.while_input {
        interrupt::at_end_of_input();
    }
    let _held = args.guard.as_deref().map(hold).transpose()?;
    let (plan, folder, start) = match &args.resume {
        Some(resume) => plan_from(args, resume)?,
        None => plan_in_folder(&args.config).map(|(plan, folder)| (plan, folder, Start::default()))?,
    };
    // Not before: until here nothing is lost by simply stopping.
    interrupt::install()?;
    if interrupt::requested() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    if !args.quiet {
        println!("{}", plan.summary());
    }

    let mut progress = Progress::new(args.quiet);
    let report = train::run(plan, &folder, start, args.max_steps, &mut progress)?;
    if !args.quiet {
        println!("{}", closing_table(&report, &folder.display().to_string()));
    }
    for fault in &report.faults {
        eprintln!("{fault}");
    }
    Ok(if report.interrupted && !report.checkpoint_failed {
        ExitCode::from(interrupt::EXIT_CODE)
    } else if report.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        // The weights are sound, but records are missing somewhere: not a success.
        ExitCode::from(Fault::Run.exit_code())
    })
}

fn hold(guard: &Path) -> Result<File, Diagnostic> {
    files::hold(guard).map_err(|error| {
        Diagnostic::run(format!("the guard of the run cannot be held ({error})"))
            .at(guard.display())
            .hint("is the folder gone or read-only?")
    })
}

pub(super) fn check(args: &ConfigArgs) -> Result<ExitCode, Diagnostic> {
    println!("{}", plan_in_folder(args)?.0.summary());
    Ok(ExitCode::SUCCESS)
}

fn closing_table(report: &Report, folder: &str) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let loss = |loss: Option<f64>| loss.map_or("missing".to_string(), |loss| format!("{loss:.4} nats/token"));
    let steps =
        if report.interrupted { format!("{} (interrupted)", report.steps) } else { report.steps.to_string() };
    let best = report
        .alerts
        .best()
        .map_or("missing".to_string(), |best| format!("{} (step {})", loss(Some(best.loss)), best.step));
    let diverged = report.alerts.diverged_at().map_or("no".to_string(), |step| format!("at step {step}"));
    let alerts: Vec<String> =
        report.alerts.counts().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    let alerts = if alerts.is_empty() { "none".to_string() } else { alerts.join(", ") };
    table.add_row(["steps", &steps]);
    table.add_row(["final training loss", &loss(report.final_loss)]);
    table.add_row(["final validation loss", &loss(report.final_val_loss)]);
    table.add_row(["best validation loss", &best]);
    table.add_row(["diverged", &diverged]);
    table.add_row(["alerts", &alerts]);
    for sink in &report.sinks {
        table.add_row([&format!("sink {}", sink.name), &sink_line(sink)]);
    }
    table.add_row(["tokens/s", &report.tokens_per_s().map_or("missing".into(), |rate| format!("{rate:.0}"))]);
    table.add_row(["run folder", folder]);
    let checkpoint =
        report.checkpoint.as_ref().map_or("missing".to_string(), |path| path.display().to_string());
    table.add_row(["checkpoint", &checkpoint]);
    table.add_row(["weights", &format!("{folder}/{WEIGHTS}")]);
    table
}

/// What a sink took and what it is missing.
fn sink_line(sink: &SinkCounts) -> String {
    let mut line = format!("{} rows", sink.rows);
    for (missing, what) in [(sink.missing_rows, "rows"), (sink.missing_events, "events")] {
        if missing > 0 {
            line.push_str(&format!(", {missing} {what} missing"));
        }
    }
    line
}
