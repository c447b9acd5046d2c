//! The arguments of commands that use a trained model, and the rounding they ask for.

use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DatasetChoice, DeviceChoice, PluginsSection, PrecisionChoice, RunConfig};
use altgrad_engine::{device::ComputeDevice, load_model::SavedModel, quant::Quantizer, setup};
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
    /// Data set instead of the run's, `bins:DIR` or `text:FILE`: the same data at another place, such as on another
    /// machine.
    #[arg(long, value_name = "DATASET")]
    dataset: Option<DatasetChoice>,
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
        let device = ComputeDevice::open(self.device)?;
        let mut model = SavedModel::open(&self.checkpoint)?;
        if let Some(dataset) = &self.dataset {
            model.config.data.dataset = dataset.clone();
        }
        Ok((device, model))
    }

    /// The casts of the run's evaluations. Plugins are opened only if a format is named.
    pub(super) fn rounding(
        &self,
        model: &SavedModel,
        device: &ComputeDevice,
    ) -> Result<Quantizer, Diagnostic> {
        if self.full_precision {
            return Ok(Quantizer::off());
        }
        let config: &RunConfig = &model.config_in_force()?;
        let formats = config.quant.names_a_format();
        if !formats && config.train.precision == PrecisionChoice::Fp32 {
            return Ok(Quantizer::off());
        }
        let section = libraries(config.plugins.clone(), self.plugins.as_deref());
        let registry = if formats { Registry::open(&section) } else { Ok(Registry::default()) };
        let quant = registry
            .and_then(|registry| setup::rounding_of(config, &model.source, &registry, device, &model.layout))
            .map(Quantizer::from);
        let mut quant = quant.map_err(|error| {
            error.hint("--plugins DIR names another folder; --full-precision needs no format")
        })?;
        model.restore(&mut quant)?;
        Ok(quant)
    }
}

/// The run's libraries, or else those of the folder that the user names. The user trusts that folder, but not the paths
/// that the run's file lists.
fn libraries(run: PluginsSection, folder: Option<&Path>) -> PluginsSection {
    match folder {
        Some(folder) => PluginsSection { dir: Some(folder.display().to_string()), load: None, ..run },
        None => run,
    }
}

#[cfg(test)]
mod tests {
    use altgrad_config::PluginRef;

    use super::*;

    #[test]
    fn a_named_folder_replaces_every_library_of_the_run() {
        let load = Some(vec![PluginRef::Name("e5m2".into()), PluginRef::Name("/theirs/int2.so".into())]);
        let run = PluginsSection { dir: Some("/theirs".into()), load, ..PluginsSection::default() };
        assert_eq!(libraries(run.clone(), None), run);
        let named = PluginsSection { dir: Some("mine".into()), ..PluginsSection::default() };
        assert_eq!(libraries(run, Some(Path::new("mine"))), named);
    }
}
