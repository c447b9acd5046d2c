//! Rounding on GPUs compared with the CPU: values bit for bit, counts and amax exactly, sums to a few digits.
//!
//! A test per mode rounds in all formats and writes a line of JSON for each to standard error; a mismatch fails the
//! test at its end, so that it does not hide the others. `ALTGRAD_ROUNDING_VALUES` is the number of values per format.
//! A device that does not answer is reported as skipped. Needs the staged plugins: `cargo xtask test-gpu` says where
//! they are.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::PluginsSection;
use altgrad_end_to_end::{floats, size, stage};
use altgrad_engine::{
    device::ComputeDevice,
    metrics,
    quant::{DeviceFormat, FakeQuantParams, QuantStats, ScaleSource, fake_quant},
    tensor,
};
use altgrad_loader::{FormatPlugin, Registry, rounding_name};
use altgrad_plugin_api::{RandomKey, Rounding};
use serde_json::{Value, json};

use super::devices;

const FORMATS: [&str; 18] = [
    "DYNAMIC8",
    "DYNAMIC8:unsigned",
    "E0M7",
    "E1M6",
    "E2M1",
    "E2M3",
    "E2M5",
    "E3M2",
    "E3M4",
    "E4M3",
    "E5M10",
    "E5M2",
    "E5M6",
    "E6M1",
    "E7M0",
    "E8M7",
    "INT4",
    "INT8",
];

/// Rounded values and their statistics.
type Rounded = (Vec<f32>, QuantStats);

#[test]
fn devices_round_to_nearest_even_like_the_cpu() {
    round_like_the_cpu("devices_round_to_nearest_even_like_the_cpu", Rounding::NEAREST_EVEN, 1.0);
}

#[test]
fn devices_round_to_nearest_away_like_the_cpu() {
    round_like_the_cpu("devices_round_to_nearest_away_like_the_cpu", Rounding::NEAREST_AWAY, 0.75);
}

#[test]
fn devices_round_toward_zero_like_the_cpu() {
    round_like_the_cpu("devices_round_toward_zero_like_the_cpu", Rounding::TOWARD_ZERO, 100.0);
}

#[test]
fn devices_round_stochastically_like_the_cpu() {
    round_like_the_cpu("devices_round_stochastically_like_the_cpu", Rounding::STOCHASTIC, 0.001);
}

fn round_like_the_cpu(test: &str, mode: Rounding, scale: f32) {
    let dir = Some(stage().join("plugins").display().to_string());
    let registry = Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap();
    // Multiples of four take vectors, other lengths do not.
    let values = floats(size("ALTGRAD_ROUNDING_VALUES", 40_000) as usize / 4 * 4);
    let inputs = [&values[..], &values[..values.len() * 3 / 4 + 1]];
    let mut differing = Vec::new();
    for device in devices(test) {
        for (name, input) in FORMATS.into_iter().flat_map(|name| inputs.map(|input| (name, input))) {
            let round = |device| round(&registry, device, name, (mode, scale), input);
            let (found, expected) = (round(&device), round(&ComputeDevice::cpu()).unwrap());
            let (same, mut line) = compare(input, found, &expected);
            let case = [("check", "rounding"), ("device", device.label.as_str()), ("format", name)];
            case.into_iter().for_each(|(key, value)| line[key] = value.into());
            (line["mode"], line["scale"]) = (rounding_name(mode).into(), scale.into());
            let _ = writeln!(io::stderr(), "{line}");
            if !same {
                differing.push(format!("{name} on {}", device.label));
            }
        }
    }
    assert!(differing.is_empty(), "differing, see the lines above: {}", differing.join(", "));
}

/// Rounds in a mode at a scale.
fn round(
    registry: &Registry,
    device: &ComputeDevice,
    name: &str,
    (rounding, scale): (Rounding, f32),
    input: &[f32],
) -> Result<Rounded, Diagnostic> {
    let plugin = FormatPlugin::make(registry, "test", name).unwrap_or_else(|(_, error)| panic!("{error}"));
    let format = DeviceFormat::new(Arc::new(plugin), device, &[rounding])?;
    let params = FakeQuantParams {
        rounding,
        key: RandomKey { seed: 7, ..RandomKey::default() },
        scale: ScaleSource::Fixed([scale, 1.0 / scale]),
        ..FakeQuantParams::unscaled(format)
    };
    let rounded = fake_quant(tensor::flat(input.to_vec(), &device.tensors), params);
    let stats = rounded.stats.read()?;
    Ok((tensor::read_f32(rounded.values)?, stats))
}

/// Whether a device's result is the CPU's, and what differs.
fn compare(input: &[f32], found: Result<Rounded, Diagnostic>, expected: &Rounded) -> (bool, Value) {
    let (found, stats) = match found {
        Ok(found) => found,
        Err(error) => return (false, json!({ "values": 0, "error": error.message })),
    };
    let differ = |i: &usize| found.get(*i).map(|x| x.to_bits()) != Some(expected.0[*i].to_bits());
    let differing: Vec<usize> = (0..input.len()).filter(differ).collect();
    let mut line = json!({ "values": input.len(), "differing": differing.len() });
    if let Some(&first) = differing.first() {
        let bits = |x: Option<&f32>| x.map(|x| format!("{:08x}", x.to_bits()));
        let [input, expected] = [input, &expected.0[..]].map(|values| bits(values.get(first)));
        line["first"] = json!({ "input": input, "found": bits(found.get(first)), "expected": expected });
    }
    let (numbers, expected) = (numbers(&stats), numbers(&expected.1));
    let apart: Vec<String> = numbers
        .iter()
        .zip(&expected)
        .filter(|(found, expected)| !close(found, expected))
        .map(|(found, expected)| format!("{} {}, expected {} {}", found.0, found.1, expected.0, expected.1))
        .collect();
    line["statistics_apart"] = json!(apart);
    let same = differing.is_empty() && apart.is_empty() && numbers.len() == expected.len();
    (same, line)
}

/// The statistics that have a value, by name.
fn numbers(stats: &QuantStats) -> Vec<(&'static str, f64)> {
    metrics::rounding::values(stats).map(|(definition, value)| (definition.name, value)).collect()
}

/// Counts and amax exactly; sums are f32 on a device. What a format cannot reach makes shrinkage -1 exactly, but E8M7
/// reaches all.
fn close(found: &(&str, f64), expected: &(&str, f64)) -> bool {
    let tolerance = match expected.0 {
        "quant/sqnr_db" => 1e-5,
        "quant/shrinkage" => 1e-7,
        _ => 0.0,
    };
    // Sums beyond f64's range are infinite, and equal.
    let equal = found.1 == expected.1 || (found.1 - expected.1).abs() <= tolerance;
    found.0 == expected.0 && equal
}
