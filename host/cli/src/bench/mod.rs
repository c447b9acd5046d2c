//! `bench`: time per training step by precision, format and metrics, measured in one process.
//!
//! Cases take turns step by step, so that other work of the machine affects all equally. The ratio is to the first
//! case. Tokens are random: times do not depend on them. With `--compare-with` another trainer takes turns with all of
//! them.

mod report;

use std::process::ExitCode;

use altgrad_base::{diagnostic::Diagnostic, interrupt, println};
use altgrad_config::DeviceChoice;
use altgrad_engine::bench::{
    BenchModel, BenchSpec, checkpoints, kernels, other_trainer::OtherTrainer, steps,
};
use clap::{Args, ValueEnum};

/// `altgrad-host bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// The model and batch.
    #[arg(long, value_enum, default_value_t = Size::Tiny)]
    size: Size,
    /// Layers, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "compare_with", value_parser = clap::value_parser!(u32).range(1..))]
    n_layer: Option<u32>,
    /// Tokens of a sequence, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "compare_with", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Sequences of a batch, instead of the size's.
    #[arg(long, value_name = "N", conflicts_with = "compare_with", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// Case to measure: fp32, bf16, hybrid (E4M3, gradients E5M2), recipe:NAME, or a format for weights, activations
    /// and gradients, with +metrics (in every step), +shadow (in every step), +blockN (scales in blocks of N) or
    /// +optimizer:NAME. With +metrics, +no-attention and +no-dead leave out metrics of attention and of dead gradients,
    /// and +kurtosis adds the kurtosis in every step. May be repeated; the other cases are compared with the first.
    #[arg(long = "case", value_name = "CASE", default_values_t = CASES.map(String::from))]
    cases: Vec<String>,
    /// Measured steps of each case.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Steps of each case before the measured ones.
    #[arg(long, default_value_t = 3)]
    warmup: u64,
    /// Device: auto, cpu, cuda:N or wgpu.
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Compares each case with the same case that writes a checkpoint every N steps, instead of the cases with each
    /// other.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Prints the kernels of one step of each case instead of times: launches, time on the device, and the module that
    /// defines each.
    #[arg(long, conflicts_with_all = ["checkpoint_every", "compare_with"])]
    kernels: bool,
    /// Another trainer, measured in turn with altgrad: a program and its first arguments. It is called with --size,
    /// --mode, --steps, --warmup and --threads, and prints a line of JSON with step_s_median, step_s_min and
    /// peak_rss_mb.
    #[arg(long, value_name = "COMMAND")]
    compare_with: Option<String>,
    /// Number of turns of altgrad and of the other trainer; the steps are divided among the turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

const CASES: [&str; 7] =
    ["fp32", "fp32+metrics", "bf16", "E5M2", "E5M2+metrics", "hybrid+metrics", "E5M2+metrics+shadow"];

/// Sizes as comparisons with other trainers use them.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Size {
    /// 4 layers, 4 heads, 128 wide, block 64, batch 12, 256 ids.
    Tiny,
    /// As tiny, with 50257 ids.
    Tiny50k,
    /// 6 layers, 6 heads, 384 wide, block 256, batch 12, 50257 ids.
    Seed,
    /// 12 layers, 12 heads, 768 wide, block 1024, batch 8, 50257 ids.
    Gpt2,
}

impl BenchArgs {
    /// The size's model and batch, with overrides.
    fn model(&self) -> BenchModel {
        let usual = self.size.model();
        let or = |given: Option<u32>, usual: usize| given.map_or(usual, |given| given as usize);
        BenchModel {
            n_layer: or(self.n_layer, usual.n_layer),
            block_size: or(self.block_size, usual.block_size),
            batch_size: or(self.batch_size, usual.batch_size),
            ..usual
        }
    }
}

impl Size {
    fn model(self) -> BenchModel {
        let tiny =
            BenchModel { n_layer: 4, n_head: 4, n_embd: 128, block_size: 64, batch_size: 12, vocab: 256 };
        match self {
            Self::Tiny => tiny,
            Self::Tiny50k => BenchModel { vocab: 50257, ..tiny },
            Self::Seed => BenchModel {
                n_layer: 6,
                n_head: 6,
                n_embd: 384,
                block_size: 256,
                batch_size: 12,
                vocab: 50257,
            },
            Self::Gpt2 => BenchModel {
                n_layer: 12,
                n_head: 12,
                n_embd: 768,
                block_size: 1024,
                batch_size: 8,
                vocab: 50257,
            },
        }
    }

    /// The spelling of the command line.
    fn name(self) -> String {
        self.to_possible_value().map(|size| size.get_name().to_string()).unwrap_or_default()
    }
}

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Diagnostic> {
    interrupt::end_at_once()?;
    let spec = BenchSpec {
        model: args.model(),
        cases: args.cases.clone(),
        steps: args.steps,
        warmup: args.warmup,
        turns: args.turns,
        device: args.device,
    };
    let size = args.size.name();
    if let Some(every) = args.checkpoint_every {
        let costs = checkpoints::measure(&spec, every)?;
        if args.json {
            println!("{}", serde_json::json!({ "size": size, "cases": costs }));
        } else {
            println!("{}", report::checkpoint_table(&costs));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.kernels {
        let cases = kernels::measure(&spec)?;
        if args.json {
            println!("{}", serde_json::json!({ "size": size, "cases": cases }));
        } else {
            println!("{}", report::kernel_tables(&cases));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut other = args.compare_with.as_deref().map(|command| OtherTrainer::new(command, &size));
    let measured = steps::measure(&spec, &size, other.as_mut())?;
    if args.json {
        println!("{}", serde_json::json!(measured));
    } else {
        println!("{}", report::text(&measured, &format!("{:?}", args.size)));
    }
    Ok(ExitCode::SUCCESS)
}
