//! Histograms of rounding on GPUs compared with those of the CPU: codes exactly, kurtosis to four digits, on all
//! formats and rounding modes.
//!
//! A device that does not answer is reported as skipped. Needs the staged plugins: `cargo xtask test-gpu` says where
//! they are.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use altgrad_config::PluginsSection;
use altgrad_end_to_end::{Random, stage};
use altgrad_engine::{
    device::ComputeDevice,
    quant::{
        DeviceFormat, FakeQuantParams, HistogramCollector, ScaleRule, ScaleSource, SiteHistogram, fake_quant,
    },
    tensor,
};
use altgrad_loader::{FormatPlugin, Registry};
use altgrad_plugin_api::{RandomKey, Rounding};

use super::devices;

const FORMATS: [&str; 14] = [
    "E0M7",
    "E1M6",
    "E2M1",
    "E2M3",
    "E2M5",
    "E3M2",
    "E3M4",
    "E4M3",
    "E4M3:ieee",
    "E5M2",
    "E5M2:fin",
    "E6M1",
    "E7M0",
    "INT4",
];
const MODES: [Rounding; 4] =
    [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY, Rounding::TOWARD_ZERO, Rounding::STOCHASTIC];

/// Numbers of about a unit, with a few of other sizes, from a generator with a fixed seed.
fn data(len: usize, unit: f32, mean: f32) -> Vec<f32> {
    let mut random = Random::seeded(5);
    let mut uniform = || random.unit() as f32 - 0.5;
    let value = |i: usize, x: f32| if i % 16 == 3 { x * 4.0 } else { x };
    (0..len).map(|i| value(i, (uniform() + uniform() + uniform()) * unit) + mean).collect()
}

/// Adds special values to a tensor: zeros of both signs, values beyond all formats, infinities and NaN.
fn with_specials(mut x: Vec<f32>) -> Vec<f32> {
    let specials =
        [0.0, -0.0, 1e-9, -1e-9, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, -0.0];
    x.extend(specials);
    x
}

/// The histogram of two calls.
fn histogram(
    format: &Arc<DeviceFormat>,
    device: &ComputeDevice,
    x: &[f32],
    how: &FakeQuantParams,
) -> SiteHistogram {
    let collector = Arc::new(HistogramCollector::new(format.values().codes()));
    for _ in 0..2 {
        let params =
            FakeQuantParams { format: format.clone(), histogram: Some(collector.clone()), ..how.clone() };
        let rounded = fake_quant(tensor::flat(x.to_vec(), &device.tensors), params);
        rounded.stats.read().unwrap();
    }
    collector.histogram().unwrap()
}

#[test]
fn devices_collect_the_cpus_histograms() {
    let dir = Some(stage().join("plugins").display().to_string());
    let registry = Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap();
    let cpu = ComputeDevice::cpu();
    for device in devices("devices_collect_the_cpus_histograms") {
        for name in FORMATS {
            let formats = [&device, &cpu].map(|device| {
                let plugin =
                    FormatPlugin::make(&registry, "test", name).unwrap_or_else(|(_, e)| panic!("{e}"));
                (DeviceFormat::new(Arc::new(plugin), device, &MODES).unwrap(), device)
            });
            let max_finite = formats[0].0.max_finite();
            let rule = ScaleRule::max(max_finite, 0, false, None);
            let fixed = |scale: f32| ScaleSource::Fixed([scale, 1.0 / scale]);
            let cases = [
                (data(30_001, 1.0, 0.0), ScaleSource::Dynamic(rule)),
                (
                    data(300_000, 1.0, 0.0),
                    ScaleSource::Dynamic(ScaleRule::max(max_finite, 0, false, Some(100))),
                ),
                (data(4096, 1e-9, 0.0), ScaleSource::Dynamic(ScaleRule::max(max_finite, 0, true, None))),
                (data(4096, 1e12, 3e12), ScaleSource::Dynamic(rule)),
                (data(70_000, 0.01, 1.0), ScaleSource::ONE),
                (with_specials(data(1000, 3.0, 0.5)), fixed(0.37)),
                (with_specials(data(3, 1.0, 0.0)), fixed(1e6)),
            ];
            for (rounding, (x, scale)) in
                MODES.into_iter().flat_map(|mode| cases.clone().map(|case| (mode, case)))
            {
                let key = RandomKey { seed: 3, step: 1, tensor: 2, offset: 0 };
                let how = FakeQuantParams {
                    rounding,
                    key,
                    scale,
                    ..FakeQuantParams::unscaled(formats[0].0.clone())
                };
                let what = format!("{name} {rounding:?} {scale:?} of {} on {}", x.len(), device.label);
                let [found, expected] =
                    formats.each_ref().map(|(format, device)| histogram(format, device, &x, &how));
                assert_eq!(found.codes, expected.codes, "{what}");
                assert_eq!(found.powers.count, expected.powers.count, "{what}");
                let (found, expected) =
                    (found.powers.kurtosis().unwrap(), expected.powers.kurtosis().unwrap());
                assert!((found / expected - 1.0).abs() < 1e-4, "{what}: kurtosis {found}, not {expected}");
            }
        }
    }
}
