//! Update kernels in both languages, everywhere they can be run or compiled without a GPU.

use altgrad_end_to_end::{is_thorough, skipped};
use altgrad_plugin_api::KernelLanguage;
use altgrad_test_kernels::{
    cuda,
    formats::{self, Subject},
    updates,
    wgsl::VulkanDevice,
};

/// The formats with their canonical domain: all in `cargo xtask test --all`, otherwise a quarter of them.
fn subjects() -> impl Iterator<Item = Subject> {
    let all = formats::all_of_8_bits().into_iter().map(|mut domains| domains.swap_remove(0));
    all.step_by(if is_thorough() { 1 } else { 4 })
}

/// CUDA text of all rules on the CPU.
fn on_the_cpu(test: &str, contract: bool) {
    if let Err(reason) = cuda::available() {
        return skipped(test, &reason);
    }
    let program = cuda::CudaOnCpu::of(updates::texts(KernelLanguage::CUDA), contract);
    for subject in subjects() {
        updates::agrees(&program, KernelLanguage::CUDA, &subject);
        updates::equal_scales_are_one(&program, KernelLanguage::CUDA, &subject);
    }
}

#[test]
#[ignore = "--all: compiles all kernels with g++"]
fn cuda_text_updates_as_the_cpu_does() {
    on_the_cpu("cuda_text_updates_as_the_cpu_does", false);
}

#[test]
#[ignore = "--all: compiles all kernels with g++"]
fn contraction_to_fma_stays_within_the_tolerance() {
    const NAME: &str = "contraction_to_fma_stays_within_the_tolerance";
    if !cuda::contraction() {
        return skipped(NAME, "this CPU has no fma");
    }
    on_the_cpu(NAME, true);
}

#[test]
#[ignore = "--all: a Vulkan device"]
fn a_vulkan_device_updates_as_the_cpu_does() {
    match VulkanDevice::new() {
        Err(reason) => skipped("a_vulkan_device_updates_as_the_cpu_does", &reason),
        Ok(device) => {
            println!("on {}", device.name);
            for subject in subjects() {
                updates::agrees(&device, KernelLanguage::WGSL, &subject);
                updates::equal_scales_are_one(&device, KernelLanguage::WGSL, &subject);
            }
        }
    }
}
