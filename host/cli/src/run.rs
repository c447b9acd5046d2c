//! `run`: from a run file to a run that can start, and to its end.

use std::{
    fmt::Display,
    fs::File,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, files, interrupt, println,
};
use altgrad_config::{RunConfig, Source};
use altgrad_engine::{
    checkpoint::{Chosen, Start, resume::AUTO},
    passes::MeanLoss,
    setup::ReadyRun,
    train::{self, ProgressListener, RunOptions, status::RunReport},
};
use altgrad_run_folder::{
    folder::{RunFolder, WEIGHTS},
    record::SinkCounts,
};
use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::{
    ConfigArgs,
    progress::{JsonProgress, TerminalProgress},
    supervise::{self, SharedProgress},
    vetting::Trust,
    watch::LivePage,
};

/// `altgrad-host run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Stops after N steps, including those before a resume. The learning-rate schedule still follows the run file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Resumes from a checkpoint: the newest valid one of the run folder, or PATH, a checkpoint folder or a run folder.
    /// `--resume` without a value means `auto`. With `auto` and no earlier part of the run, the run starts from the
    /// beginning.
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = AUTO, value_parser = NonEmptyStringValueParser::new())]
    resume: Option<String>,
    /// Resumes even if run file, data or plugins differ from those of the checkpoint, and records the differences.
    #[arg(long, requires = "resume")]
    resume_anyway: bool,
    /// Writes a trace of N steps, from the second one on, to `profile.json` in the run folder, for ui.perfetto.dev and
    /// chrome://tracing: the phases of each step, the launches of kernels, and their times on the device.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    profile: Option<u64>,
    /// Shows errors only.
    #[arg(long)]
    quiet: bool,
    /// Progress as `text` on stderr, or as `json`: one object per line on stdout, at most one per second, and one more
    /// when the run ends. With `json`, all other output goes to stderr.
    #[arg(long, value_name = "STYLE", default_value = "text")]
    progress: ProgressStyle,
    /// Serves the run's live page during the run, as `watch` does. Its address goes to standard error.
    #[arg(long)]
    watch: bool,
    /// For programs that start runs: waits until no other run holds this file, and holds it.
    #[arg(long, value_name = "FILE", hide = true)]
    guard: Option<PathBuf>,
    /// For programs that start runs: ends as on Ctrl-C when standard input ends.
    #[arg(long, hide = true)]
    while_input: bool,
}

impl RunArgs {
    /// The libraries that it may load.
    pub(super) fn trust(&self) -> Trust {
        self.config.trust.into()
    }
}

/// Style of the progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgressStyle {
    /// For people.
    Text,
    /// For programs: fields status, step, steps, loss, validation_loss, validation_step, tokens_per_s, elapsed_s,
    /// training_s and error.
    Json,
}

impl RunArgs {
    /// Options of the supervising process.
    pub(super) fn supervision(&self) -> supervise::Asked {
        supervise::Asked { json: self.progress == ProgressStyle::Json, with_starter: self.while_input }
    }
}

/// The run file and its overrides.
pub(super) fn load(args: &ConfigArgs) -> Result<(RunConfig, Source), Diagnostic> {
    let (mut config, mut source) = altgrad_config::load(&args.config, &args.set)?;
    take_arguments(args, &mut config, &mut source);
    Ok((config, source))
}

/// Applies the command line to a run file.
pub(super) fn take_arguments(args: &ConfigArgs, config: &mut RunConfig, source: &mut Source) {
    if let Some(device) = args.device {
        config.run.device = device;
        source.note_option("run.device", format!("--device {device}"));
    }
    supervise::limit(&config.limits);
}

/// The run of a command line, without its folder.
pub(super) fn build(args: &ConfigArgs) -> Result<ReadyRun, Diagnostic> {
    let (config, source) = load(args)?;
    ReadyRun::build(config, &source)
}

/// The run and its folder, which is empty or missing.
fn build_in_folder(args: &ConfigArgs) -> Result<(ReadyRun, PathBuf), Diagnostic> {
    let (config, source) = load(args)?;
    let folder = folder(args, &config);
    let ready = ReadyRun::build(config, &source)?;
    RunFolder::check(&folder)?;
    Ok((ready, folder))
}

pub(super) fn folder(args: &ConfigArgs, config: &RunConfig) -> PathBuf {
    args.out.clone().unwrap_or_else(|| PathBuf::from(&config.run.out).join(&config.run.name))
}

/// The same for a run that may resume from a checkpoint, with its start.
fn build_from(args: &RunArgs, resume: &str) -> Result<(ReadyRun, PathBuf, Start), Diagnostic> {
    let (mut config, source) = load(&args.config)?;
    let folder = folder(&args.config, &config);
    let chosen = Chosen::find(resume, &folder)?;
    chosen.inherit(&mut config, &source);
    let mut ready = ReadyRun::build(config, &source)?;
    let start = chosen.restore(&mut ready, args.resume_anyway)?;
    if start.from.is_none() && !args.quiet {
        eprintln!("no checkpoint in {}: the run starts from the beginning", folder.display());
    }
    Ok((ready, folder, start))
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Diagnostic> {
    if args.while_input {
        interrupt::at_end_of_input();
    }
    // Held until this function returns.
    let guard = args.guard.as_deref().map(hold).transpose();
    let train = |listener: &mut dyn ProgressListener, say| match &guard {
        Ok(_) => train(args, listener, say),
        Err(error) => Err(error.clone()),
    };
    let report = match args.progress {
        ProgressStyle::Text => train(&mut TerminalProgress::new(args.quiet), |text| println!("{text}")),
        ProgressStyle::Json => {
            let mut progress = JsonProgress::new(args.quiet);
            let report = train(&mut progress, |text| eprintln!("{text}"));
            if let Some(ended) = report.as_ref().map(Option::as_ref).transpose() {
                progress.ended(ended);
            }
            report
        }
    };
    Ok(report?.map_or(ExitCode::from(interrupt::EXIT_CODE), |report| exit_code(&report)))
}

/// Trains; `None` if the user stopped the run before it started. `say` prints a summary before the run, and the results
/// after it.
fn train(
    args: &RunArgs,
    listener: &mut dyn ProgressListener,
    say: fn(&dyn Display),
) -> Result<Option<RunReport>, Diagnostic> {
    let (ready, folder, start) = match &args.resume {
        Some(resume) => build_from(args, resume)?,
        None => build_in_folder(&args.config).map(|(ready, folder)| (ready, folder, Start::default()))?,
    };
    // Signals are handled from here on: before, a plain stop loses nothing.
    supervise::listen()?;
    if interrupt::requested() {
        return Ok(None);
    }
    if !args.quiet {
        say(&ready.summary());
    }
    let _page = LivePage::beside(&folder, args.watch);
    let options = RunOptions { stop_after: args.max_steps, profile: args.profile };
    let report = train::run(ready, &folder, start, options, &mut SharedProgress(listener))?;
    if !args.quiet {
        say(&closing_table(&report, &folder.display().to_string()));
    }
    for fault in &report.faults {
        eprintln!("{fault}");
    }
    Ok(Some(report))
}

/// 130 for an interrupted run with a checkpoint of its last step.
fn exit_code(report: &RunReport) -> ExitCode {
    if report.interrupted && !report.checkpoint_failed {
        ExitCode::from(interrupt::EXIT_CODE)
    } else if report.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        // The weights are valid, but records are missing: not a success.
        ExitCode::from(Fault::Run.exit_code())
    }
}

fn hold(guard: &Path) -> Result<File, Diagnostic> {
    files::hold(guard).map_err(|error| {
        Diagnostic::run(format!("the lock file of the run cannot be locked ({error})"))
            .at(guard.display())
            .hint("was the folder deleted, or is it read-only?")
    })
}

fn closing_table(report: &RunReport, folder: &str) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let loss = |loss: Option<f64>| loss.map_or("missing".to_string(), |loss| format!("{loss:.4} nats/token"));
    let steps =
        if report.interrupted { format!("{} (interrupted)", report.steps) } else { report.steps.to_string() };
    let best = report
        .alerts
        .best()
        .map_or("missing".to_string(), |best| format!("{} (step {})", loss(Some(best.loss)), best.step));
    let alerts: Vec<String> =
        report.alerts.counts().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    let alerts = if alerts.is_empty() { "none".to_string() } else { alerts.join(", ") };
    table.add_row(["steps", &steps]);
    table.add_row(["final training loss", &loss(report.final_loss)]);
    let final_val = report.final_val.map_or("missing".to_string(), |held_out| {
        let MeanLoss { loss: value, tokens } = held_out.mean;
        format!("{} ({} evaluation, {tokens} tokens)", loss(Some(value)), held_out.kind.name())
    });
    table.add_row(["final validation loss", &final_val]);
    table.add_row(["best validation loss", &best]);
    let diverged = report.diverged_at().map_or("no".to_string(), |step| format!("at step {step}"));
    table.add_row(["diverged", &diverged]);
    table.add_row(["alerts", &alerts]);
    for sink in &report.sinks {
        table.add_row([&format!("sink {}", sink.name), &sink_line(sink)]);
    }
    table.add_row(["tokens/s", &report.tokens_per_s().map_or("missing".into(), |rate| format!("{rate:.0}"))]);
    if let Some(share) = report.utilization() {
        let of_sheet =
            report.sheet_utilization().map(|share| format!(", {:.1} % of the data sheet", 100.0 * share));
        let share = format!("{:.1} %{}", 100.0 * share, of_sheet.unwrap_or_default());
        table.add_row(["model FLOPs utilization", &share]);
    }
    table.add_row(["run folder", folder]);
    let checkpoint =
        report.checkpoint.as_ref().map_or("missing".to_string(), |path| path.display().to_string());
    table.add_row(["checkpoint", &checkpoint]);
    table.add_row(["weights", &format!("{folder}/{WEIGHTS}")]);
    if let Some(profile) = &report.profile {
        table.add_row(["trace of steps", &profile.display().to_string()]);
    }
    table
}

/// Rows that a sink took, and missing rows.
fn sink_line(sink: &SinkCounts) -> String {
    let mut line = format!("{} rows", sink.rows);
    for (missing, what) in [(sink.missing_rows, "rows"), (sink.missing_events, "events")] {
        if missing > 0 {
            line.push_str(&format!(", {missing} {what} missing"));
        }
    }
    line
}
