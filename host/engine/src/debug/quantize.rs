//! Values rounded with a format, by the operation that training uses.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{RandomKey, Rounding};

use crate::{
    device::ComputeDevice,
    quant::{DeviceFormat, FakeQuantParams, QuantStats, ScaleSource, fake_quant},
    tensor,
};

/// How values are rounded.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeOptions {
    /// The rounding mode.
    pub rounding: Rounding,
    /// Multiplied in before rounding; its inverse after.
    pub scale: f32,
    /// Seed of stochastic rounding: step 0, tensor 0.
    pub seed: u64,
}

/// The rounded values, as many, and the statistics of their rounding.
///
/// # Errors
/// The format does not run on the device, or a call failed.
pub fn quantize(
    format: FormatPlugin,
    values: Vec<f32>,
    options: QuantizeOptions,
    device: &ComputeDevice,
) -> Result<(Vec<f32>, QuantStats), Diagnostic> {
    let QuantizeOptions { rounding, scale, seed } = options;
    let format = DeviceFormat::new(Arc::new(format), device, &[rounding])?;
    let call = FakeQuantParams {
        rounding,
        key: RandomKey { seed, ..RandomKey::default() },
        scale: ScaleSource::Fixed([scale, 1.0 / scale]),
        ..FakeQuantParams::unscaled(format)
    };
    let rounded = fake_quant::fake_quant(tensor::flat(values, &device.tensors), call);
    let seen = rounded.stats.read()?;
    Ok((tensor::read_f32(rounded.values)?, seen))
}
