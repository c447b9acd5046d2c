//! Operations on devices against their definitions and the CPU: one binary, because each with GPU support is large.

#![allow(clippy::unwrap_used)]

mod counts;
mod fused;
mod fused_padded;
mod histograms;
mod linear;
mod padded;
mod recipes;
mod rounding;
mod scales;
mod sums;

use altgrad_end_to_end::{gpu_devices, skipped};
use altgrad_engine::device::ComputeDevice;

/// The GPUs that a test uses. One that does not answer is reported as skipped.
fn devices(test: &str) -> Vec<ComputeDevice> {
    let open = |name: &str| {
        let device = ComputeDevice::open(name.parse().unwrap());
        device.map_err(|error| skipped(test, &error.message)).ok()
    };
    gpu_devices().into_iter().filter_map(open).collect()
}
