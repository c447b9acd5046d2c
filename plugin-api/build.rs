//! Records which compiler builds this copy of the API, for the host's run metadata.
//!
//! Every plugin compiles its own copy of this crate, so the record is of the plugin's compiler and
//! target, not the host's.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    println!("cargo::rustc-env=ALTGRAD_RUSTC={}", version.trim());
    for (from, to) in [("TARGET", "ALTGRAD_TARGET"), ("CARGO_CFG_TARGET_FEATURE", "ALTGRAD_CPU_FEATURES")] {
        println!("cargo::rustc-env={to}={}", std::env::var(from).unwrap_or_default());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
