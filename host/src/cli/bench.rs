//! `bench`: what a training step costs, by precision, format and measurements, side by side in one process.
//!
//! Cases take turns step by step, so that whatever else the machine does hits all alike. The ratio is to the first
//! case. Tokens are random: what is timed does not depend on them.

mod checkpoints;

use std::{fs, path::Path, process::ExitCode};

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::{
    config::{self, DeviceChoice},
    diagnostic::Diagnostic,
    metrics::MetricRecord,
    plan::Plan,
    random::{self, Stream},
    train::step,
};

/// `altgrad-host bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// The model and batch.
    #[arg(long, value_enum, default_value_t = Size::Tiny)]
    size: Size,
    /// What to time: fp32, bf16, hybrid (E4M3, gradients E5M2) or a format for weights, activations and gradients, with
    /// +metrics (every step's) or +shadow (every step); may stand several times. The first is what others are compared
    /// with.
    #[arg(long = "case", value_name = "CASE", default_values_t = CASES.map(String::from))]
    cases: Vec<String>,
    /// Steps of each case that count.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Steps of each case before that.
    #[arg(long, default_value_t = 3)]
    warmup: u64,
    /// Where to compute: auto, cpu, cuda:N or wgpu.
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Instead of steps beside each other, times each case's with a checkpoint every N steps beside those without.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

const CASES: [&str; 7] =
    ["fp32", "fp32+metrics", "bf16", "E5M2", "E5M2+metrics", "hybrid+metrics", "E5M2+metrics+shadow"];

/// Sizes as comparisons with other trainers use them.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Size {
    /// 4 layers, 4 heads, 128 wide, block 64, batch 12, 256 ids.
    Tiny,
    /// The same with 50257 ids.
    Tiny50k,
    /// 6 layers, 6 heads, 384 wide, block 256, batch 12, 50257 ids.
    Seed,
    /// 12 layers, 12 heads, 768 wide, block 1024, batch 8, 50257 ids.
    Gpt2,
}

impl Size {
    /// Layers, heads, width, block, batch, ids.
    fn numbers(self) -> [usize; 6] {
        match self {
            Self::Tiny => [4, 4, 128, 64, 12, 256],
            Self::Tiny50k => [4, 4, 128, 64, 12, 50257],
            Self::Seed => [6, 6, 384, 256, 12, 50257],
            Self::Gpt2 => [12, 12, 768, 1024, 8, 50257],
        }
    }
}

/// What was measured of a case.
#[derive(Debug, Serialize)]
struct Timing {
    case: String,
    /// Milliseconds a step: median and least.
    median_ms: f64,
    least_ms: f64,
    /// Of the medians and of the least, to the first case's.
    median_ratio: f64,
    least_ratio: f64,
    /// By the median.
    tokens_per_s: f64,
}

/// All of it.
#[derive(Debug, Serialize)]
struct Report {
    size: Size,
    device: String,
    threads: usize,
    steps: u64,
    host_version: &'static str,
    cases: Vec<Timing>,
}

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Diagnostic> {
    let folder = tempfile::tempdir()
        .map_err(|error| Diagnostic::run(format!("cannot make a temporary folder ({error})")))?;
    write_tokens(folder.path(), args.size)?;
    if let Some(every) = args.checkpoint_every {
        return checkpoints(folder.path(), args, every);
    }
    let plans: Result<Vec<Plan>, Diagnostic> =
        args.cases.iter().map(|case| plan(folder.path(), args, case)).collect();
    let mut plans = plans?;
    let mut times = vec![Vec::new(); plans.len()];
    for number in 0..args.warmup + args.steps {
        for (plan, times) in plans.iter_mut().zip(&mut times) {
            plan.trainer.quant.begin_step(number);
            let (_, elapsed) = step::step(plan, number, &mut MetricRecord::new(number), &mut None, None)?;
            if number >= args.warmup {
                times.push(elapsed.as_secs_f64() * 1e3);
            }
        }
    }
    let report = report(args, &plans, times);
    if args.json {
        println!("{}", serde_json::json!(report));
    } else {
        println!("{}\n{}", heading(&report), table(&report));
    }
    Ok(ExitCode::SUCCESS)
}

fn checkpoints(folder: &Path, args: &BenchArgs, every: u64) -> Result<ExitCode, Diagnostic> {
    let cost = |case: &String| checkpoints::cost(plan(folder, args, case)?, case, every, args.steps);
    let costs = args.cases.iter().map(cost).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        println!("{}", serde_json::json!({ "size": args.size, "cases": costs }));
    } else {
        println!("{}", checkpoints::table(&costs));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(args: &BenchArgs, plans: &[Plan], times: Vec<Vec<f64>>) -> Report {
    let mut sorted = times;
    sorted.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let median = |times: &[f64]| times[times.len() / 2];
    let (first_median, first_least) = (median(&sorted[0]), sorted[0][0]);
    let cases = args.cases.iter().zip(plans).zip(&sorted).map(|((case, plan), times)| Timing {
        case: case.clone(),
        median_ms: median(times),
        least_ms: times[0],
        median_ratio: median(times) / first_median,
        least_ratio: times[0] / first_least,
        tokens_per_s: plan.tokens_per_step() as f64 / median(times) * 1e3,
    });
    Report {
        size: args.size,
        device: plans[0].device.label.clone(),
        threads: rayon::current_num_threads(),
        steps: args.steps,
        host_version: env!("CARGO_PKG_VERSION"),
        cases: cases.collect(),
    }
}

/// Random token ids as bins, a few batches of them.
fn write_tokens(folder: &Path, size: Size) -> Result<(), Diagnostic> {
    let [.., block, batch, vocab] = size.numbers();
    let mut generator = random::at(0, Stream::Init, 0);
    let mut write = |name: &str, len: usize| {
        let ids = (0..len).flat_map(|_| {
            let id: u16 = rand::RngExt::random_range(&mut generator, 0..vocab as u16);
            id.to_le_bytes()
        });
        fs::write(folder.join(name), ids.collect::<Vec<u8>>())
    };
    write("train.bin", 8 * batch * (block + 1))
        .and_then(|()| write("val.bin", 2 * (block + 1)))
        .and_then(|()| fs::write(folder.join("meta.json"), format!("{{\"vocab_size\": {vocab}}}")))
        .map_err(|error| Diagnostic::run(format!("cannot write tokens ({error})")).at(folder.display()))
}

/// The plan of a case: a run file like any other.
fn plan(folder: &Path, args: &BenchArgs, case: &str) -> Result<Plan, Diagnostic> {
    let mut parts = case.split('+');
    let mode = parts.next().unwrap_or_default();
    let (mut metrics, mut shadow) = (0, 0);
    for part in parts {
        match part {
            "metrics" => metrics = 1,
            "shadow" => shadow = 1,
            _ => {
                return Err(Diagnostic::config(format!("unknown part `{part}` of case `{case}`"))
                    .hint("parts are +metrics and +shadow, as in E5M2+metrics+shadow"));
            }
        }
    }
    let quant = match mode {
        "fp32" | "bf16" => String::new(),
        "hybrid" => "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"".into(),
        format => format!("weight = {format:?}\nactivation = {format:?}\ngrad = {format:?}"),
    };
    let precision = if mode == "bf16" { "bf16" } else { "fp32" };
    let [n_layer, n_head, n_embd, block, batch, _] = args.size.numbers();
    let steps = args.warmup + args.steps;
    let text = format!(
        "[run]\nname = \"bench\"\ndevice = \"{}\"\n[data]\ndataset = {:?}\ntokenizer = \"gpt2\"\n\
         block_size = {block}\nbatch_size = {batch}\n[model]\nn_layer = {n_layer}\nn_head = {n_head}\n\
         n_embd = {n_embd}\n[train]\nmax_steps = {steps}\nwarmup_steps = 0\nprecision = \"{precision}\"\n\
         [quant]\n{quant}\n[shadow]\nevery = {shadow}\n[metrics]\nevery = {metrics}\n",
        args.device,
        format!("bins:{}", folder.display()),
    );
    let file = folder.join("bench.toml");
    fs::write(&file, text)
        .map_err(|error| Diagnostic::run(format!("cannot write ({error})")).at(file.display()))?;
    let (config, source) = config::load(&file, &[])?;
    Plan::new(config, &source)
}

fn heading(report: &Report) -> String {
    format!(
        "size {:?}, device {}, {} threads, {} steps a case, in turn",
        report.size, report.device, report.threads, report.steps
    )
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["case", "median ms", "least ms", "ratio of medians", "of least", "tokens/s"]);
    for timing in &report.cases {
        table.add_row([
            timing.case.clone(),
            format!("{:.2}", timing.median_ms),
            format!("{:.2}", timing.least_ms),
            format!("{:.3}", timing.median_ratio),
            format!("{:.3}", timing.least_ratio),
            format!("{:.0}", timing.tokens_per_s),
        ]);
    }
    table
}
