//! The arguments of commands that use a trained model, and the rounding they ask for.

use std::path::PathBuf;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DeviceChoice, PrecisionChoice, RunConfig};
use altgrad_engine::{device::ComputeDevice, load_model::SavedModel, quant::QuantContext, setup};
use altgrad_loader::Registry;
use clap::Args;

use super::vetting::{Trust, TrustArgs};

/// A trained model, its device and its arithmetic.
#[derive(Debug, Args)]
pub(super) struct SavedModelArgs {
    /// A run folder (its final weights, or else its newest checkpoint), a checkpoint folder, or a weights file with its
    /// config.toml beside it.
    checkpoint: PathBuf,
    /// Uses the weights as they are, without the run's formats and bf16; needs no plugin.
    #[arg(long)]
    full_precision: bool,
    /// Folder of plugin libraries instead of the run's.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Device: auto, cpu, cuda:N or wgpu. On the CPU results are bit-identical.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    #[command(flatten)]
    trust: TrustArgs,
}

impl SavedModelArgs {
    /// Whose libraries may be loaded.
    pub(super) fn trust(&self) -> Trust {
        if self.plugins.is_some() { Trust::Named } else { self.trust.into() }
    }

    /// Opens device and model.
    pub(super) fn open(&self) -> Result<(ComputeDevice, SavedModel), Diagnostic> {
        Ok((ComputeDevice::open(self.device)?, SavedModel::open(&self.checkpoint)?))
    }

    /// The casts of the run's evaluations. Plugins are opened only if a format is named.
    pub(super) fn rounding(
        &self,
        model: &SavedModel,
        device: &ComputeDevice,
    ) -> Result<QuantContext, Diagnostic> {
        let config: &RunConfig = &model.config_in_force()?;
        let formats = config.quant.names_a_format();
        if self.full_precision || (!formats && config.train.precision == PrecisionChoice::Fp32) {
            return Ok(QuantContext::off());
        }
        let mut section = config.plugins.clone();
        if let Some(folder) = &self.plugins {
            section.dir = Some(folder.display().to_string());
        }
        let registry = if formats { Registry::open(&section) } else { Ok(Registry::default()) };
        registry
            .and_then(|registry| setup::rounding_of(config, &model.source, &registry, device, &model.layout))
            .map_err(|error| {
                error.hint("--plugins DIR names another folder; --full-precision needs no format")
            })
    }
}
