//! Update kernels in both languages, everywhere they can be run or compiled without a GPU.

use altgrad_end_to_end::skipped;
use altgrad_plugin_api::KernelLanguage;
use altgrad_test_kernels::{cuda, formats, updates, wgsl::VulkanDevice};

/// CUDA text of all rules on the CPU, on the grids of all formats with their canonical domain.
fn on_the_cpu(test: &str, contract: bool) {
    if let Err(reason) = cuda::available() {
        return skipped(test, &reason);
    }
    let program = cuda::CudaOnCpu::of(updates::texts(KernelLanguage::CUDA), contract);
    for subjects in formats::all_of_8_bits() {
        updates::agrees(&program, KernelLanguage::CUDA, &subjects[0]);
        updates::equal_scales_are_one(&program, KernelLanguage::CUDA, &subjects[0]);
    }
}

#[test]
fn cuda_text_updates_as_the_cpu_does() {
    on_the_cpu("cuda_text_updates_as_the_cpu_does", false);
}

#[test]
fn contraction_to_fma_stays_within_the_tolerance() {
    const NAME: &str = "contraction_to_fma_stays_within_the_tolerance";
    if !cuda::contraction() {
        return skipped(NAME, "this CPU has no fma");
    }
    on_the_cpu(NAME, true);
}

#[test]
fn a_vulkan_device_updates_as_the_cpu_does() {
    match VulkanDevice::new() {
        Err(reason) => skipped("a_vulkan_device_updates_as_the_cpu_does", &reason),
        Ok(device) => {
            println!("on {}", device.name);
            for subjects in formats::all_of_8_bits() {
                updates::agrees(&device, KernelLanguage::WGSL, &subjects[0]);
                updates::equal_scales_are_one(&device, KernelLanguage::WGSL, &subjects[0]);
            }
        }
    }
}
