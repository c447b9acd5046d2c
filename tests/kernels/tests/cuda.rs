//! CUDA text, run on the CPU by g++ and a shim, against the CPU implementation.

use altgrad_plugin_api::KernelLanguage;
use altgrad_test_kernels::{check, cuda, formats};

fn contraction() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn check_all(subjects: &[formats::Subject], contract: bool, random: usize) {
    for subject in subjects {
        let program = cuda::CudaOnCpu::new(subject, contract);
        check::subject(&program, subject, KernelLanguage::CUDA, random);
    }
}

#[test]
fn e5m2_in_all_domains() {
    if let Err(reason) = cuda::available() {
        return altgrad_test_kernels::skipped(format!("e5m2_in_all_domains: {reason}"));
    }
    check_all(&formats::e5m2(), false, 1 << 20);
}

#[test]
fn e5m2_with_contraction_to_fma() {
    if let Err(reason) = cuda::available() {
        return altgrad_test_kernels::skipped(format!("e5m2_with_contraction_to_fma: {reason}"));
    }
    if !contraction() {
        return altgrad_test_kernels::skipped("e5m2_with_contraction_to_fma: this CPU has no fma".into());
    }
    check_all(&formats::e5m2()[..1], true, 1 << 20);
}

#[test]
fn formats_of_other_kinds() {
    if let Err(reason) = cuda::available() {
        return altgrad_test_kernels::skipped(format!("formats_of_other_kinds: {reason}"));
    }
    check_all(&formats::others(), contraction(), 1 << 18);
}
