//! CUDA text, compiled by NVIDIA's compiler for a real architecture. `ALTGRAD_PYTHON` names a Python that has the
//! wheels.

use std::{env, fs, process::Command};

use altgrad_end_to_end::skipped;
use altgrad_plugin_api::KernelLanguage;
use altgrad_test_kernels::{check, formats, updates};

/// Exit status of the script when NVRTC is not installed.
const MISSING: i32 = 77;

#[test]
#[ignore = "--all: NVRTC"]
fn nvrtc_compiles_every_text_for_sm_90() {
    const NAME: &str = "nvrtc_compiles_every_text_for_sm_90";
    let dir = tempfile::tempdir().unwrap();
    let python = env::var("ALTGRAD_PYTHON").unwrap_or("python3".into());
    let mut command = Command::new(&python);
    command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/nvrtc/compile.py"), "sm_90"]);
    // All formats share their texts.
    let format = &formats::named("E5M2")[0];
    for (number, text) in check::texts(format, KernelLanguage::CUDA).iter().enumerate() {
        let file = dir.path().join(format!("format-{number}.cu"));
        fs::write(&file, &*text.source).unwrap();
        command.arg(file);
    }
    for (number, text) in updates::texts(KernelLanguage::CUDA).iter().enumerate() {
        let file = dir.path().join(format!("update-{number}.cu"));
        fs::write(&file, &*text.source).unwrap();
        command.arg(file);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return skipped(NAME, &format!("{python} cannot be started: {e}")),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(MISSING) {
        return skipped(NAME, said.trim());
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
