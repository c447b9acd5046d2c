//! The macros that export plugins: accepted uses, and the compiler's messages for wrong ones.
//!
//! The texts beside the cases in `macros/fail` are those of one compiler; `TRYBUILD=overwrite` replaces them. With
//! another compiler the tests are skipped by name.

use std::{env, io::Write, process::Command};

use trybuild::TestCases;

/// The compiler whose messages are in `macros/fail`.
const RECORDED_WITH: &str = "rustc 1.95.";

/// True if the messages can be compared; otherwise prints the reason past the test harness's capture.
fn is_recorded_compiler(test: &str) -> bool {
    let version = Command::new("rustc").arg("--version").output().map(|output| output.stdout);
    let version = String::from_utf8_lossy(&version.unwrap_or_default()).trim().to_string();
    let is_recorded = version.starts_with(RECORDED_WITH);
    if !is_recorded {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: messages are those of {RECORDED_WITH}x, this is {version}"
        );
    }
    is_recorded
}

#[test]
#[ignore = "--all: compiles crates"]
fn plugins_of_every_kind_export_and_mistakes_are_named() {
    if is_recorded_compiler("plugins_of_every_kind_export_and_mistakes_are_named") {
        let cases = TestCases::new();
        cases.pass("tests/macros/pass/*.rs");
        cases.compile_fail("tests/macros/fail/*.rs");
    }
}

/// The profile comes from the environment, so this test starts itself again with another one.
#[test]
#[ignore = "--all: compiles crates"]
fn a_library_built_with_panic_abort_does_not_compile() {
    const TEST: &str = "a_library_built_with_panic_abort_does_not_compile";
    const PROFILE: (&str, &str) = ("CARGO_PROFILE_DEV_PANIC", "abort");
    if !is_recorded_compiler(TEST) {
        return;
    }
    if env::var(PROFILE.0).is_ok_and(|panic| panic == PROFILE.1) {
        TestCases::new().compile_fail("tests/macros/abort.rs");
        return;
    }
    let this = env::current_exe().unwrap_or_default();
    let output = Command::new(this).args(["--exact", TEST, "--nocapture"]).env(PROFILE.0, PROFILE.1).output();
    let output = output.map_err(|error| format!("the test cannot start itself: {error}"));
    let passed =
        output.map(|output| (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()));
    assert!(matches!(passed, Ok((true, _))), "{passed:#?}");
}
