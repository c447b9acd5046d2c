//! `bench`: what a training step costs, by precision, format and measurements, side by side in one process.
//!
//! Cases take turns step by step, so that whatever else the machine does hits all alike. The ratio is to the first
//! case. Tokens are random: what is timed does not depend on them. With `--rival` another trainer takes turns with all
//! of them.

mod phases;
mod report;
mod rival;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::{
    phases::Phases,
    report::{Report, Timing},
    rival::Rival,
};
use crate::{
    config::{self, DeviceChoice},
    diagnostic::Diagnostic,
    memory,
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
    /// Another trainer to be timed in turn: a program and its first arguments. It is given --size, --mode, --steps,
    /// --warmup and --threads, and prints a line of JSON with step_s_median, step_s_min and peak_rss_mb.
    #[arg(long, value_name = "COMMAND")]
    rival: Option<String>,
    /// Turns of ours and the rival's; each takes its share of the steps.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
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

/// What was measured of a case's steps.
#[derive(Debug, Default)]
struct Times {
    /// Milliseconds.
    steps: Vec<f64>,
    /// Milliseconds of each part that any step had.
    phases: BTreeMap<&'static str, Vec<f64>>,
}

impl Times {
    fn add(&mut self, step: Duration, phases: BTreeMap<&'static str, f64>) {
        self.steps.push(step.as_secs_f64() * 1e3);
        for (name, time) in phases {
            self.phases.entry(name).or_default().push(time);
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Diagnostic> {
    let folder = tempfile::tempdir()
        .map_err(|error| Diagnostic::run(format!("cannot make a temporary folder ({error})")))?;
    write_tokens(folder.path(), args.size)?;
    let plans: Result<Vec<Plan>, Diagnostic> =
        args.cases.iter().map(|case| plan(folder.path(), args, case)).collect();
    let mut plans = plans?;
    let size = args.size.to_possible_value().map(|size| size.get_name().to_string()).unwrap_or_default();
    let mut rival = args.rival.as_deref().map(|command| Rival::new(command, &size));
    let mut times: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
    let turns = if rival.is_some() { args.turns.min(args.steps) } else { 1 };
    let mut number = 0;
    for turn in 0..turns {
        let steps = args.steps * (turn + 1) / turns - args.steps * turn / turns;
        // Caches are cold after the rival's turn.
        take_steps(&mut plans, &mut times, number..number + args.warmup + steps, args.warmup)?;
        number += args.warmup + steps;
        let modes: BTreeSet<&'static str> = args.cases.iter().filter_map(|case| rival::mode(case)).collect();
        for mode in modes {
            if let Some(rival) = &mut rival {
                rival.run(mode, steps, args.warmup)?;
            }
        }
    }
    let report = report(args, &plans, &times, rival.as_ref());
    if args.json {
        println!("{}", serde_json::json!(report));
    } else {
        println!("{}", report.text());
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes steps of all cases in turn; the first `warmup` do not count.
fn take_steps(
    plans: &mut [Plan],
    times: &mut [Times],
    numbers: Range<u64>,
    warmup: u64,
) -> Result<(), Diagnostic> {
    let phases = Phases::default();
    let subscriber = phases.subscriber();
    let first = numbers.start + warmup;
    for number in numbers {
        for (plan, times) in plans.iter_mut().zip(&mut *times) {
            plan.trainer.quant.begin_step(number);
            let taken = tracing::dispatcher::with_default(&subscriber, || {
                step::step(plan, number, &mut MetricRecord::new(number), &mut None, None)
            });
            let (_, elapsed) = taken?;
            let phases = phases.take();
            if number >= first {
                times.add(elapsed, phases);
            }
        }
    }
    Ok(())
}

fn report(args: &BenchArgs, plans: &[Plan], times: &[Times], rival: Option<&Rival<'_>>) -> Report {
    let (first_median, first_least) = (median(&times[0].steps), least(&times[0].steps));
    let cases = args.cases.iter().zip(plans).zip(times).map(|((case, plan), times)| {
        let (median_ms, least_ms) = (median(&times.steps), least(&times.steps));
        Timing {
            case: case.clone(),
            median_ms,
            least_ms,
            median_ratio: median_ms / first_median,
            least_ratio: least_ms / first_least,
            tokens_per_s: plan.tokens_per_step() as f64 / median_ms * 1e3,
            phases_ms: times.phases.iter().map(|(name, times)| (*name, median(times))).collect(),
            rival: rival.and_then(|rival| rival.beside(case, [median_ms, least_ms])),
        }
    });
    Report {
        size: args.size,
        device: plans[0].device.label.clone(),
        threads: rayon::current_num_threads(),
        steps: args.steps,
        host_version: env!("CARGO_PKG_VERSION"),
        peak_rss_mb: memory::peak_rss().map(|bytes| bytes as f64 / 1e6),
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
    let steps = args.turns * (args.warmup + args.steps);
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
