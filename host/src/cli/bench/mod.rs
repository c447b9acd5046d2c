//! `bench`: what a training step costs, by precision, format and measurements, side by side in one process.
//!
//! Cases take turns step by step, so that whatever else the machine does hits all alike. The ratio is to the first
//! case. Tokens are random: what is timed does not depend on them. With `--rival` another trainer takes turns with all
//! of them.

mod cases;
mod checkpoints;
mod machine;
mod phases;
mod report;
mod rival;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::{
    cases::{plan, write_tokens},
    machine::Machine,
    phases::Phases,
    report::{Report, Timing},
    rival::Rival,
};
use crate::{
    config::DeviceChoice, diagnostic::Diagnostic, memory, metrics::MetricRecord, plan::Plan, train::step,
};

/// `altgrad-host bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// The model and batch.
    #[arg(long, value_enum, default_value_t = Size::Tiny)]
    size: Size,
    /// Layers, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "rival", value_parser = clap::value_parser!(u32).range(1..))]
    n_layer: Option<u32>,
    /// Tokens of a sequence, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "rival", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Sequences of a batch, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "rival", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
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

impl BenchArgs {
    /// Layers, heads, width, block, batch, ids.
    fn numbers(&self) -> [usize; 6] {
        let [layers, heads, width, block, batch, ids] = self.size.numbers();
        let or = |given: Option<u32>, usual: usize| given.map_or(usual, |given| given as usize);
        let layers = or(self.n_layer, layers);
        [layers, heads, width, or(self.block_size, block), or(self.batch_size, batch), ids]
    }
}

impl Size {
    /// As [`BenchArgs::numbers`].
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

/// MB.
fn mb(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / 1e6)
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
    write_tokens(folder.path(), args.numbers())?;
    if let Some(every) = args.checkpoint_every {
        return checkpoints(folder.path(), args, every);
    }
    let plans: Result<Vec<Plan>, Diagnostic> =
        args.cases.iter().map(|case| plan(folder.path(), args, case)).collect();
    let mut plans = plans?;
    let size = args.size.to_possible_value().map(|size| size.get_name().to_string()).unwrap_or_default();
    let mut rival = args.rival.as_deref().map(|command| Rival::new(command, &size));
    let mut times: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
    let turns = if rival.is_some() { args.turns.min(args.steps) } else { 1 };
    let (mut number, mut rss) = (0, Vec::new());
    for turn in 0..turns {
        let steps = args.steps * (turn + 1) / turns - args.steps * turn / turns;
        // Caches are cold after the rival's turn.
        let tenth = (args.steps / 10).max(1) as usize;
        take_steps(&mut plans, &mut times, number..number + args.warmup + steps, args.warmup, |step| {
            if step > 0 && step % tenth == 0 {
                rss.extend(mb(memory::rss()));
            }
        })?;
        number += args.warmup + steps;
        let modes: BTreeSet<&'static str> = args.cases.iter().filter_map(|case| rival::mode(case)).collect();
        for mode in modes {
            if let Some(rival) = &mut rival {
                rival.run(mode, steps, args.warmup)?;
            }
        }
    }
    // Before the machine is measured, which takes memory of its own.
    let memory = (mb(memory::peak_rss()), rss);
    let machine = Machine::measure(&plans)?;
    let report = report(args, &plans, &times, rival.as_ref(), memory, machine);
    if args.json {
        println!("{}", serde_json::json!(report));
    } else {
        println!("{}", report.text());
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

/// Takes steps of all cases in turn; the first `warmup` do not count. `after` is told how many of the others are over.
fn take_steps(
    plans: &mut [Plan],
    times: &mut [Times],
    numbers: Range<u64>,
    warmup: u64,
    mut after: impl FnMut(usize),
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
        after(times[0].steps.len());
    }
    Ok(())
}

fn report(
    args: &BenchArgs,
    plans: &[Plan],
    times: &[Times],
    rival: Option<&Rival<'_>>,
    (peak_rss_mb, rss_mb): (Option<f64>, Vec<f64>),
    machine: Machine,
) -> Report {
    let (first_median, first_least) = (median(&times[0].steps), least(&times[0].steps));
    let cases = args.cases.iter().zip(plans).zip(times).map(|((case, plan), times)| {
        let (median_ms, least_ms) = (median(&times.steps), least(&times.steps));
        let gflop = machine::gflop(plan);
        Timing {
            case: case.clone(),
            median_ms,
            least_ms,
            median_ratio: median_ms / first_median,
            least_ratio: least_ms / first_least,
            tokens_per_s: plan.tokens_per_step() as f64 / median_ms * 1e3,
            gflop,
            floor_ms: gflop / machine.matmul_gflop_s * 1e3,
            phases_ms: times.phases.iter().map(|(name, times)| (*name, median(times))).collect(),
            rival: rival.and_then(|rival| rival.beside(case, [median_ms, least_ms])),
        }
    });
    Report {
        size: args.size,
        shape: args.numbers(),
        device: plans[0].device.label.clone(),
        threads: rayon::current_num_threads(),
        steps: args.steps,
        host_version: env!("CARGO_PKG_VERSION"),
        peak_rss_mb,
        rss_mb,
        cases: cases.collect(),
        machine,
    }
}
