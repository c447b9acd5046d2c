//! CUDA text, run on the CPU by g++ and a shim, against the CPU implementation.

use std::sync::LazyLock;

use altgrad_end_to_end::{is_thorough, skipped};
use altgrad_plugin_api::KernelLanguage;
use altgrad_test_kernels::{check, cuda::CudaOnCpu, formats};

/// All formats share their texts, which are compiled once: without contraction to fma.
static PROGRAM: LazyLock<CudaOnCpu> = LazyLock::new(|| program(false));

fn program(contract: bool) -> CudaOnCpu {
    CudaOnCpu::of(check::texts(&formats::named("E5M2")[0], KernelLanguage::CUDA), contract)
}

/// A format in all its domains, on special values and bit patterns at random.
fn agrees(format: &str, contract: bool) {
    if let Err(reason) = altgrad_test_kernels::cuda::available() {
        return skipped(&format!("CUDA text of {format}"), &reason);
    }
    let own = contract.then(|| program(true));
    let program = own.as_ref().unwrap_or_else(|| &*PROGRAM);
    let random = if is_thorough() { 1 << 18 } else { 1 << 14 };
    check::domains(program, &formats::named(format), KernelLanguage::CUDA, random);
}

/// A test a format.
macro_rules! formats {
    ($($test:ident $format:literal)*) => {
        $(#[test]
        fn $test() {
            agrees($format, false);
        })*
    };
}

formats! {
    int4 "E0M3"
    e0m7 "E0M7"
    e1m6 "E1M6"
    e2m1 "E2M1"
    e2m3 "E2M3"
    e2m5 "E2M5"
    e3m2 "E3M2"
    e3m4 "E3M4"
    e4m3 "E4M3"
    e5m2 "E5M2"
    e6m1 "E6M1"
    e7m0 "E7M0"
    e5m6 "E5M6"
    e5m10 "E5M10"
    e8m7 "E8M7"
}

/// The code around the rounding is the same in all formats: one is enough.
#[test]
fn e5m2_with_contraction_to_fma() {
    if !altgrad_test_kernels::cuda::contraction() {
        return skipped("e5m2_with_contraction_to_fma", "this CPU has no fma");
    }
    agrees("E5M2", true);
}
