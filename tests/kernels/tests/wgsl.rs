//! WGSL text: valid, and on a Vulkan device the same as the CPU implementation.

use altgrad_plugin_api::{KernelLanguage, KernelOp};
use altgrad_test_kernels::{
    cases::MODES,
    check,
    formats::{self, Subject},
    wgsl::VulkanDevice,
};
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn validate(subject: &Subject, op: KernelOp, vector: u32) {
    let kernel = subject.kernel(op, &check::target(KernelLanguage::WGSL, vector));
    let what = format!("{} {op:?} vector {vector}", subject.name);
    let module = naga::front::wgsl::parse_str(&kernel.source)
        .unwrap_or_else(|e| panic!("{what}: {}", e.emit_to_string(&kernel.source)));
    // No capabilities: WebGPU without extensions.
    Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{what}: {}", e.emit_to_string(&kernel.source)));
    assert_eq!(module.entry_points.len(), 1, "{what}");
    assert_eq!(module.entry_points[0].name, kernel.entry.as_str(), "{what}");
    assert_eq!(module.entry_points[0].workgroup_size, kernel.cube_dim, "{what}");
}

#[test]
fn naga_accepts_every_text() {
    for subject in formats::e5m2().iter().chain(&formats::others()) {
        for vector in [4, 1] {
            for op in [KernelOp::FAKE_QUANT, KernelOp::ENCODE] {
                for mode in MODES {
                    validate(subject, op.with_rounding(mode), vector);
                }
            }
            validate(subject, KernelOp::DECODE, vector);
            validate(subject, KernelOp::HISTOGRAM, vector);
        }
    }
}

#[test]
fn a_vulkan_device_computes_what_the_cpu_does() {
    let device = match VulkanDevice::new() {
        Ok(device) => device,
        Err(reason) => {
            return altgrad_test_kernels::skipped(format!(
                "a_vulkan_device_computes_what_the_cpu_does: {reason}"
            ));
        }
    };
    println!("on {}", device.name);
    for (subject, random) in
        formats::e5m2().iter().map(|s| (s, 1 << 20)).chain(formats::others().iter().map(|s| (s, 1 << 16)))
    {
        check::subject(&device, subject, KernelLanguage::WGSL, random);
    }
}
