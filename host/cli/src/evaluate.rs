//! `evaluate`: the loss of a trained model on its run's data.

use std::process::ExitCode;

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_data::Split;
use altgrad_engine::{evaluate::Evaluator, passes::MeanLoss};
use altgrad_run_folder::record::EvaluationKind;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::saved_model::SavedModelArgs;

/// A part of the corpus.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum SplitArgument {
    /// Held-out tokens.
    Val,
    /// Training tokens.
    Train,
}

impl SplitArgument {
    pub(super) fn split(self) -> Split {
        match self {
            Self::Val => Split::Validation,
            Self::Train => Split::Train,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Val => "validation",
            Self::Train => "training",
        }
    }
}

/// `altgrad-host evaluate`.
#[derive(Debug, Args)]
pub(super) struct EvaluateArgs {
    #[command(flatten)]
    pub(super) model: SavedModelArgs,
    /// Part of the run's data.
    #[arg(long, value_enum, default_value_t = SplitArgument::Val)]
    split: SplitArgument,
    /// Predicts every token of the split except the first, in consecutive windows, instead of a sample.
    #[arg(long, conflicts_with = "batches")]
    full: bool,
    /// Batches of the sample [default: the run's `train.eval_batches`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batches: Option<u64>,
    /// Writes one JSON object instead of a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &EvaluateArgs) -> Result<ExitCode, Diagnostic> {
    let (device, model) = args.model.open()?;
    let quant = args.model.rounding(&model, &device)?;
    let (weights, rounding) = (model.weights.display().to_string(), quant.plan.summary());
    let batches = args.batches.unwrap_or(model.config.train.eval_batches as u64);
    let evaluator = Evaluator::new(model, quant, &device)?;
    let (split, name) = (args.split.split(), args.split.name());
    let (kind, mean) = if args.full {
        (EvaluationKind::Full, evaluator.full(split)?)
    } else {
        (EvaluationKind::Sampled, evaluator.sampled(split, batches)?)
    };
    let MeanLoss { loss, tokens } = mean;
    if args.json {
        let object = json!({
            "weights": weights, "step": evaluator.step, "split": name, "evaluation": kind.name(), "tokens": tokens,
            "loss": loss, "perplexity": loss.exp(), "rounding": rounding, "device": device.label,
        });
        println!("{object:#}");
    } else {
        println!(
            "{name} loss {loss:.4} nats/token, perplexity {:.3} ({} evaluation, {tokens} tokens, {rounding})",
            loss.exp(),
            kind.name()
        );
    }
    Ok(ExitCode::SUCCESS)
}
