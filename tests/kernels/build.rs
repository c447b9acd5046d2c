//! Kernel texts of the formats under test.

#[path = "../../plugins/formats/e5m2/src/kernel.rs"]
mod e5m2;
#[path = "formats/kernels.rs"]
mod kernels;

use std::{env, path::Path};

use altgrad_kernel_kit::write;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=formats");
    println!("cargo::rerun-if-changed=../../plugins/formats/e5m2/src/kernel.rs");
    let Some(dir) = env::var_os("OUT_DIR") else { panic!("OUT_DIR is not set") };
    let dir = Path::new(&dir);
    write::<e5m2::E5M2>(dir, "e5m2");
    write::<kernels::E0M7>(dir, "e0m7");
    write::<kernels::E1M6>(dir, "e1m6");
    write::<kernels::E4M3>(dir, "e4m3");
    write::<kernels::E7M0>(dir, "e7m0");
    write::<kernels::BF16>(dir, "bf16");
}
