//! `weights export`: the weights a run would start from, for use elsewhere. Import is `model.init` in the run file.

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;

use super::{ConfigArgs, run};
use crate::{diagnostic::Diagnostic, model::weights};

/// `altgrad-host weights`.
#[derive(Debug, Subcommand)]
pub(super) enum WeightsCommand {
    /// Writes the weights a run would start from: initial ones, or those of `model.init`.
    Export {
        #[command(flatten)]
        config: ConfigArgs,
        /// The safetensors file to write.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
}

pub(super) fn run(command: WeightsCommand) -> Result<ExitCode, Diagnostic> {
    let WeightsCommand::Export { config, to } = command;
    let plan = run::plan(&config)?;
    weights::write(&to, &plan.trainer.params.layout, &plan.trainer.weights()?)?;
    println!("{} parameters written to {}", plan.trainer.params.layout.elements(), to.display());
    Ok(ExitCode::SUCCESS)
}
