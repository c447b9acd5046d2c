//! `sample`: text from a trained model, as it is drawn.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DeviceChoice, PrecisionChoice, RunConfig};
use altgrad_engine::{
    device::ComputeDevice,
    load_model::SavedModel,
    quant::QuantContext,
    sample::{self, Sampler, pick::Picking, text::Characters},
    setup,
};
use altgrad_loader::Registry;
use clap::Args;

/// `altgrad-host sample`.
#[derive(Debug, Args)]
pub(super) struct SampleArgs {
    /// A run folder (its final weights, or else its newest checkpoint), a checkpoint folder, or a weights file with its
    /// config.toml beside it.
    checkpoint: PathBuf,
    /// Text to continue; of a longer one than the model's block, the end counts.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to add.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    tokens: u64,
    /// Logits are divided by this; 0 always takes the most likely token.
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature)]
    temperature: f64,
    /// Draws from the K most likely tokens only [default: from all].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    top_k: Option<u64>,
    /// Seed of the draws [default: the run's seed].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Uses the weights as they are, without the run's formats and bf16; needs no plugin.
    #[arg(long)]
    full_precision: bool,
    /// Folder of plugin libraries instead of the run's.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Device: auto, cpu, cuda:N or wgpu. On the CPU a seed gives the same text to the bit.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
}

fn temperature(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("it must be 0 or more".into()) }
}

pub(super) fn run(args: &SampleArgs) -> Result<ExitCode, Diagnostic> {
    let device = ComputeDevice::open(args.device)?;
    let model = SavedModel::open(&args.checkpoint)?;
    let tokenizer = sample::tokenizer(&model.config.data)?;
    let prompt = tokenizer.encode(&args.prompt).map_err(|error| error.at("--prompt"))?;
    if tokenizer.vocab() > model.shape.vocab {
        let message = format!(
            "the tokenizer has {} ids, the weights {}: they do not belong together",
            tokenizer.vocab(),
            model.shape.vocab
        );
        return Err(Diagnostic::config(message).at(model.weights.display()).hint(
            "the corpus has changed since the run; say its characters at `data.alphabet` in the config.toml",
        ));
    }
    let quant = rounding(args, &model, &device)?;
    let picking = Picking {
        temperature: args.temperature,
        top_k: args.top_k.map(|k| usize::try_from(k).unwrap_or(usize::MAX)),
    };
    let seed = args.seed.unwrap_or(model.config.run.seed);
    let sampler = Sampler::new(model, quant, &device, tokenizer.vocab());
    let mut characters = Characters::default();
    // A reader that goes away ends the sampling, not the process.
    let show = |text: String| {
        let mut out = io::stdout();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
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

/// What the run's evaluations round. Plugins are opened only if a format is named.
fn rounding(
    args: &SampleArgs,
    model: &SavedModel,
    device: &ComputeDevice,
) -> Result<QuantContext, Diagnostic> {
    let config: &RunConfig = &model.config;
    let formats = config.quant.names_a_format();
    if args.full_precision || (!formats && config.train.precision == PrecisionChoice::Fp32) {
        return Ok(QuantContext::off());
    }
    let mut section = config.plugins.clone();
    if let Some(folder) = &args.plugins {
        section.dir = Some(folder.display().to_string());
    }
    let registry = if formats { Registry::open(&section) } else { Ok(Registry::default()) };
    registry
        .and_then(|registry| setup::rounding_of(config, &model.source, &registry, device, &model.layout))
        .map_err(|error| error.hint("--plugins DIR names another folder; --full-precision needs no format"))
}
