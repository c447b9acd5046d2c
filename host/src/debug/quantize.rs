//! Values rounded with a format, by the operation that training uses.

use std::sync::Arc;

use altgrad_plugin_api::{RandomKey, Rounding};

use crate::{
    device::ComputeDevice,
    diagnostic::Diagnostic,
    model::params,
    plugins::FormatPlugin,
    quant::{Call, DeviceFormat, ScaleSource, Seen, op},
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
) -> Result<(Vec<f32>, Seen), Diagnostic> {
    let QuantizeOptions { rounding, scale, seed } = options;
    let format = DeviceFormat::new(Arc::new(format), device, &[rounding])?;
    let call = Call {
        rounding,
        key: RandomKey { seed, ..RandomKey::default() },
        scale: ScaleSource::Fixed([scale, 1.0 / scale]),
        ..Call::plain(format)
    };
    let rounded = op::fake_quant(params::flat(values, &device.tensors), call);
    let seen = rounded.seen.read()?;
    Ok((params::read_f32(rounded.values)?, seen))
}
