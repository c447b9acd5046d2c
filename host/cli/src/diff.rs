//! `diff`: the first layer, operation and step in which two runs differ.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println, ulp::INFINITELY_FAR};
use altgrad_config::{CastPhase, CastTrigger, DeviceChoice, RunConfig, Source};
use altgrad_engine::{
    debug::lockstep::{self, LockstepComparison, Parting},
    setup::ReadyRun,
};
use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use super::{ConfigArgs, run, vetting::TrustArgs};

/// The exit code if the runs part, as of diff(1).
const PARTED: u8 = 1;
/// Rows of the table.
const MOST_ROWS: usize = 10;

/// `altgrad-host diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// One run file.
    config_a: PathBuf,
    /// The other: same seed, [data], [model] and train.grad_accum.
    config_b: PathBuf,
    /// Steps to compare; fewer if a run is shorter.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Largest distance at which two values count as equal, in steps from one f32 to the next.
    #[arg(long, value_name = "K", default_value_t = 0)]
    ulp: u64,
    /// Overrides a key in both: `--set train.lr=1e-4`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Device of both instead of `run.device`: auto, cpu, cuda:N or wgpu.
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Writes one JSON object instead of lines.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

pub(super) fn run(args: &DiffArgs) -> Result<ExitCode, Diagnostic> {
    let (a, b) = (load(args, &args.config_a)?, load(args, &args.config_b)?);
    refuse_other_batches(&a, &b)?;
    warn_of_alerts([&a.0, &b.0]);
    let steps = args.steps.min(a.0.train.max_steps).min(b.0.train.max_steps);
    let build =
        |(config, source): (RunConfig, Source)| ReadyRun::build(lockstep::unmeasured(config), &source);
    let mut runs = [build(a)?, build(b)?];
    let found = lockstep::compare(runs.each_mut(), steps, args.ulp, |step| {
        eprintln!("step {step}: no difference");
    })?;
    if args.json {
        println!("{:#}", to_json(args, &found));
    } else {
        print(args, &found);
    }
    Ok(if found.partings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PARTED) })
}

fn load(args: &DiffArgs, config: &Path) -> Result<(RunConfig, Source), Diagnostic> {
    let config = config.to_path_buf();
    run::load(&ConfigArgs {
        config,
        set: args.set.clone(),
        device: args.device,
        out: None,
        trust: args.trust,
    })
}

/// Refuses runs that would part at the first batch or weight for reasons that are no finding.
fn refuse_other_batches(a: &(RunConfig, Source), b: &(RunConfig, Source)) -> Result<(), Diagnostic> {
    let Some(key) = lockstep::differing_key(&a.0, &b.0)? else { return Ok(()) };
    let places = format!("{} and {}", a.1.locate(&key), b.1.locate(&key));
    Err(Diagnostic::config(format!("the two run files differ in `{key}`"))
        .at(places)
        .hint("runs are compared on the same model and batches; --set gives a key the same value in both"))
}

/// Warns of entries of the schedule that an alert triggers: a comparison measures no metrics, so that it raises no
/// alerts.
fn warn_of_alerts(configs: [&RunConfig; 2]) {
    let waits = |phase: &CastPhase| matches!(phase.trigger, CastTrigger::On(_));
    if configs.iter().any(|config| config.quant.schedule.iter().any(waits)) {
        eprintln!(
            "warning: entries of `quant.schedule` with `on` have no effect here: a comparison raises no alerts"
        );
    }
}

fn print(args: &DiffArgs, found: &LockstepComparison) {
    let (a, b) = (args.config_a.display(), args.config_b.display());
    let Some(first) = found.partings.first() else {
        println!("{a} and {b}: no difference above {} ULP in {} steps", args.ulp, found.steps);
        return;
    };
    println!("{a} and {b} differ at step {}, {}: {}", first.step, first.place.phase.name(), first.place);
    println!(
        "{} of {} elements differ by more than {} ULP, element {} by {}: {:?} and {:?}",
        first.apart,
        first.elements,
        args.ulp,
        first.index,
        distance(first.ulp),
        first.values[0],
        first.values[1]
    );
    println!("\nfirst difference of each operation in that step, in time order:\n{}", table(&found.partings));
    if let Some(more) = found.partings.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
        println!("and {more} operations after these");
    }
}

fn table(partings: &[Parting]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["phase", "layer, operation", "largest distance", "element", "a", "b"]);
    for Parting { place, ulp, index, values: [a, b], .. } in partings.iter().take(MOST_ROWS) {
        table.add_row([
            place.phase.name().to_string(),
            place.to_string(),
            distance(*ulp),
            index.to_string(),
            format!("{a:?}"),
            format!("{b:?}"),
        ]);
    }
    table
}

fn distance(ulp: u64) -> String {
    if ulp == INFINITELY_FAR { "infinitely far".into() } else { format!("{ulp} ULP") }
}

fn to_json(args: &DiffArgs, found: &LockstepComparison) -> Value {
    let partings: Vec<Value> = found.partings.iter().map(parting_json).collect();
    json!({
        "a": args.config_a.display().to_string(),
        "b": args.config_b.display().to_string(),
        "tolerated_ulp": args.ulp,
        "steps": found.steps,
        "parted": !partings.is_empty(),
        "partings": partings,
    })
}

fn parting_json(parting: &Parting) -> Value {
    let Parting { step, place, ulp, index, values, apart, elements } = parting;
    // serde_json writes null for NaN and infinities; the bits distinguish them.
    let value = |value: f32| json!({ "value": f64::from(value), "f32_bits": value.to_bits() });
    json!({
        "step": step,
        "micro_batch": place.micro_batch,
        "phase": place.phase.name(),
        "layer": place.layer,
        "operation": place.operation,
        "largest_ulp": (*ulp != INFINITELY_FAR).then_some(ulp),
        "infinitely_far": *ulp == INFINITELY_FAR,
        "element": index,
        "a": value(values[0]),
        "b": value(values[1]),
        "elements_apart": apart,
        "elements": elements,
    })
}
