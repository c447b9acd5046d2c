//! WGSL text: valid, and on a Vulkan device the same as the CPU implementation.

use altgrad_end_to_end::{is_thorough, skipped};
use altgrad_plugin_api::{KernelLanguage, KernelText};
use altgrad_test_kernels::{check, formats, updates, wgsl::VulkanDevice};
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn validate(what: &str, kernel: &KernelText) {
    let what = format!("{what} {} vector {}", kernel.entry, kernel.vector);
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
    // All formats share their texts.
    for text in check::texts(&formats::named("E5M2")[0], KernelLanguage::WGSL) {
        validate("format", &text);
    }
    for text in updates::texts(KernelLanguage::WGSL) {
        validate("update", &text);
    }
}

#[test]
#[ignore = "--all: a Vulkan device"]
fn a_vulkan_device_computes_what_the_cpu_does() {
    let device = match VulkanDevice::new() {
        Ok(device) => device,
        Err(reason) => return skipped("a_vulkan_device_computes_what_the_cpu_does", &reason),
    };
    println!("on {}", device.name);
    for subjects in formats::all().into_iter().step_by(if is_thorough() { 1 } else { 3 }) {
        check::domains(
            &device,
            &subjects,
            KernelLanguage::WGSL,
            if is_thorough() { 1 << 18 } else { 1 << 14 },
        );
    }
}
