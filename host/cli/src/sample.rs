//! `sample`: text from a trained model, as it is drawn.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, print, print::escaped};
use altgrad_engine::sample::{self, Sampler, pick::Picking, text::Characters};
use clap::Args;

use super::saved_model::SavedModelArgs;

/// `altgrad-host sample`.
#[derive(Debug, Args)]
pub(super) struct SampleArgs {
    #[command(flatten)]
    pub(super) model: SavedModelArgs,
    /// Text to continue. If it is longer than the model's block, its end is used.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to add.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    tokens: u64,
    /// Divisor of the logits; 0 always takes the most likely token.
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature)]
    temperature: f64,
    /// Draws from the K most likely tokens only [default: all tokens].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    top_k: Option<u64>,
    /// Seed of the draws [default: the run's seed].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn temperature(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("it must be 0 or more".into()) }
}

pub(super) fn run(args: &SampleArgs) -> Result<ExitCode, Diagnostic> {
    let (device, model) = args.model.open()?;
    let tokenizer = sample::tokenizer(&model.config.data)?;
    let prompt = tokenizer.encode(&args.prompt).map_err(|error| error.at("--prompt"))?;
    model.check_vocab(&tokenizer)?;
    let quant = args.model.rounding(&model, &device)?;
    let picking = Picking {
        temperature: args.temperature,
        top_k: args.top_k.map(|k| usize::try_from(k).unwrap_or(usize::MAX)),
    };
    let seed = args.seed.unwrap_or(model.config.run.seed);
    let sampler = Sampler::new(model, quant, &device, tokenizer.vocab());
    let mut characters = Characters::default();
    // A reader that closes the pipe ends the sampling, not the process.
    let show = |text: String| {
        let text = if io::stdout().is_terminal() { escaped(&text) } else { text.as_str().into() };
        print::output(text.as_bytes())
    };
    // An empty prompt is refused before anything is shown.
    let listened = args.prompt.is_empty() || show(args.prompt.clone());
    if listened {
        sampler.generate(&prompt, args.tokens, &picking, seed, |id| {
            show(characters.push(&tokenizer.bytes(&[id]).unwrap_or_default()))
        })?;
        show(characters.finish() + "\n");
    }
    Ok(ExitCode::SUCCESS)
}
