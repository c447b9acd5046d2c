//! `formats quantize`: raw little-endian f32 in, rounded values out, by the same operation that training uses.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_config::{DeviceChoice, RoundingChoice};
use altgrad_engine::{
    debug::quantize::{QuantizeOptions, quantize},
    device::ComputeDevice,
    metrics,
};
use altgrad_loader::rounding_mode;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::FolderArgs;
use crate::raw_f32;

/// `altgrad-host formats quantize`.
#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// The format, such as `E5M2`, or with options: `E3M4:ieee`.
    name: String,
    /// Rounding mode.
    #[arg(long, default_value_t = RoundingChoice::NearestEven,
        value_parser = PossibleValuesParser::new(RoundingChoice::NAMES).try_map(|name| name.parse::<RoundingChoice>()))]
    rounding: RoundingChoice,
    /// Factor applied to values before rounding; results are divided by it.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    scale: f32,
    /// Seed of stochastic rounding (step 0, tensor 0).
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Raw little-endian f32.
    #[arg(long, value_name = "F32LE")]
    input: PathBuf,
    /// Raw little-endian f32 of the same length.
    #[arg(long, value_name = "F32LE")]
    output: PathBuf,
    /// Device: auto, cpu, cuda:N or wgpu.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    #[command(flatten)]
    folder: FolderArgs,
}

pub(super) fn run(args: &QuantizeArgs) -> Result<ExitCode, Diagnostic> {
    if !(args.scale.is_finite() && args.scale > 0.0 && (1.0 / args.scale).is_finite()) {
        let message =
            format!("--scale must be positive and finite, and so must its inverse, found {}", args.scale);
        return Err(Diagnostic::config(message).hint("1 rounds the values as they are"));
    }
    let (format, _) = args.folder.format(&args.name)?;
    let source = raw_f32::read(&args.input)?;
    let device = ComputeDevice::open(args.device)?;
    let options =
        QuantizeOptions { rounding: rounding_mode(args.rounding), scale: args.scale, seed: args.seed };
    let (rounded, seen) = quantize(format, source, options, &device)?;
    raw_f32::write(&args.output, &rounded)?;
    println!("{} elements, amax {}", seen.elements, seen.stats.amax);
    for (definition, value) in metrics::rounding::values(&seen) {
        println!("{} {value}", definition.name);
    }
    Ok(ExitCode::SUCCESS)
}
