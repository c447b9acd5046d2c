//! `weights export`: weights for use elsewhere, in the layout that other programs read. Import is `model.init` in the
//! run file.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_config::{GeluChoice, ModelSection};
use altgrad_engine::{
    load_model::SavedModel,
    model::{
        GptShape, Layout,
        weights::{self, Convention},
    },
    setup::ReadyRun,
};
use clap::{Subcommand, ValueEnum, builder::PossibleValue};

use super::{ConfigArgs, run, vetting::Trust};

/// A weights layout as an argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayoutArgument(Convention);

impl ValueEnum for LayoutArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Convention::NanoGpt), Self(Convention::Gpt2)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            Convention::NanoGpt => PossibleValue::new("nanogpt")
                .help("Layout of nanoGPT and altgrad: linear weights `[out, in]`"),
            Convention::Gpt2 => PossibleValue::new("gpt2")
                .help("Layout of GPT-2 at Hugging Face: linear weights `[in, out]`, always with biases"),
        })
    }
}

/// `altgrad-host weights`.
#[derive(Debug, Subcommand)]
pub(super) enum WeightsCommand {
    /// Writes the weights of a run folder or checkpoint. For a run file, writes the initial weights of its run.
    Export {
        #[command(flatten)]
        config: ConfigArgs,
        /// The safetensors file to write.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Layout of the file.
        #[arg(long, value_enum, default_value_t = LayoutArgument(Convention::NanoGpt))]
        layout: LayoutArgument,
    },
}

impl WeightsCommand {
    /// The libraries that it may load.
    pub(super) fn trust(&self) -> Trust {
        let Self::Export { config, .. } = self;
        config.trust.into()
    }
}

pub(super) fn run(command: WeightsCommand) -> Result<ExitCode, Diagnostic> {
    let WeightsCommand::Export { config: args, to, layout: LayoutArgument(convention) } = command;
    if args.out.is_some() {
        return Err(Diagnostic::config("an export has no run folder")
            .at("--out")
            .hint("name the file with `--to`"));
    }
    let (config, shape, layout, (values, note)) = if is_saved(&args) {
        if !args.set.is_empty() || args.device.is_some() {
            return Err(Diagnostic::config("a trained model is exported as it is")
                .at(args.config.display())
                .hint("leave `--set` and `--device` out"));
        }
        let model = SavedModel::open(&args.config)?;
        let note = model.state()?.map(|state| state.to_toml()).transpose()?;
        let SavedModel { config, shape, layout, values, .. } = model;
        (config, shape, layout, (values, note))
    } else {
        let ReadyRun { setup, state, .. } = run::build(&args)?;
        let values = state.weights()?;
        (setup.config, setup.model.gpt.shape, state.params.layout, (values, None))
    };
    let beyond = shape.parts.keys_beyond_nanogpt();
    if convention == Convention::Gpt2 && !beyond.is_empty() {
        let keys = beyond.iter().map(|key| format!("`model.{key}`")).collect::<Vec<_>>().join(", ");
        return Err(Diagnostic::config(format!("the model differs from GPT-2 in {keys}"))
            .at(args.config.display())
            .hint("export it with --layout nanogpt, or train it with these keys at their defaults"));
    }
    weights::write_as(&to, (&layout, convention), values, note.as_deref())?;
    println!("{} parameters written to {}", layout.elements(), to.display());
    if convention == Convention::Gpt2 {
        println!("config.json for Hugging Face: {}", hugging_face(&config.model, &shape, &layout));
    }
    Ok(ExitCode::SUCCESS)
}

/// True if the argument is a trained model and no run file.
fn is_saved(args: &ConfigArgs) -> bool {
    args.config.is_dir() || args.config.extension().is_some_and(|extension| extension == "safetensors")
}

/// Settings of Hugging Face's GPT-2 for the same function.
fn hugging_face(model: &ModelSection, shape: &GptShape, layout: &Layout) -> serde_json::Value {
    serde_json::json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": shape.vocab,
        "bos_token_id": null,
        "eos_token_id": null,
        "n_positions": shape.block_size,
        "n_embd": shape.n_embd,
        "n_layer": shape.n_layer,
        "n_head": shape.n_head,
        "activation_function": if model.gelu == GeluChoice::Tanh { "gelu_new" } else { "gelu" },
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": layout.head == layout.wte,
    })
}
