//! Dynamic scales on GPUs: the bits of the CPU's, for groups of all lengths and for more groups than a launch has
//! cubes.
//!
//! A device that does not answer is reported as skipped. Needs the staged plugins: `cargo xtask test-gpu` says where
//! they are.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use altgrad_config::PluginsSection;
use altgrad_end_to_end::{Random, stage};
use altgrad_engine::{
    device::ComputeDevice,
    kernel_text::{download, upload},
    quant::{DeviceFormat, FakeQuantParams, ScaleRule, ScaleSource, fake_quant, scale_kernel},
    tensor,
};
use altgrad_loader::{FormatPlugin, Registry};
use altgrad_plugin_api::Rounding;
use burn::backend::DispatchDevice;
use burn_cubecl::CubeBackend;

use super::devices;

/// Number and length of groups. The last case has more groups than 65,535 cubes have units.
const GROUPS: [[usize; 2]; 7] =
    [[1, 1], [1, 255], [3, 257], [2, 65_537], [1, 1_000_003], [1000, 32], [65_535 * 64 + 100, 1]];

/// Scales of groups of `len` elements, on a device.
fn scales(registry: &Registry, device: &ComputeDevice, x: &[f32], len: usize) -> Vec<u32> {
    let plugin = FormatPlugin::make(registry, "test", "E4M3").unwrap_or_else(|(_, error)| panic!("{error}"));
    let format = DeviceFormat::new(Arc::new(plugin), device, &[Rounding::NEAREST_EVEN]).unwrap();
    let rule = ScaleRule::max(format.max_finite(), 0, false, Some(len));
    let params =
        FakeQuantParams { scale: ScaleSource::Dynamic(rule), ..FakeQuantParams::unscaled(format.clone()) };
    let scales = fake_quant(tensor::flat(x.to_vec(), &device.tensors), params).scales;
    tensor::read_f32(scales.flatten(0, 1)).unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn groups_of_all_lengths_have_the_scales_of_the_cpu() {
    let dir = Some(stage().join("plugins").display().to_string());
    let registry = Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap();
    for device in devices("groups_of_all_lengths_have_the_scales_of_the_cpu") {
        for [groups, len] in GROUPS {
            let mut random = Random::seeded(len as u64);
            let mut x: Vec<f32> = (0..groups * len).map(|_| random.unit() as f32 - 0.5).collect();
            // The largest comes last; what is not finite has no influence.
            x[groups * len - 1] = -3.0;
            if len > 4 {
                (x[0], x[1], x[2]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
            }
            let [found, expected] =
                [&device, &ComputeDevice::cpu()].map(|device| scales(&registry, device, &x, len));
            assert_eq!(found.len(), 2 * groups);
            assert!(found == expected, "{}: {groups} groups of {len}", device.label);
            // Cubes that pass results to each other, as devices do that promise it, on any device.
            let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else { unreachable!("a GPU") };
            let tensor = upload::<CubeBackend>(cube, [x.len()].into(), x);
            let rule = ScaleRule::max(448.0, 0, false, Some(len));
            let found =
                download::<CubeBackend>(scale_kernel::scales_by(tensor, &rule, true).unwrap()).unwrap();
            let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
            assert!(found == expected, "{}: {groups} groups of {len} in one launch", device.label);
        }
    }
}
