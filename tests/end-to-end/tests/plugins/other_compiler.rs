//! A plugin built by another compiler loads and trains. Skipped by name where there is no second toolchain.

use std::{path::Path, process::Command};

use altgrad_end_to_end::{Bench, TINY, plugin, skipped, stage};

/// `rustc --version` of a toolchain, or of the one cargo uses here.
fn rustc_version(toolchain: Option<&str>) -> Option<String> {
    let mut command = match toolchain {
        Some(toolchain) => {
            let mut command = Command::new("rustup");
            command.args(["run", toolchain, "rustc"]);
            command
        }
        None => Command::new("rustc"),
    };
    let output = command.arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// An installed toolchain of another version.
fn other_toolchain() -> Option<String> {
    let own = rustc_version(None)?;
    let list = Command::new("rustup").args(["toolchain", "list"]).output().ok()?;
    let names = String::from_utf8_lossy(&list.stdout).into_owned();
    names
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| rustc_version(Some(name)).is_some_and(|version| version != own))
        .map(str::to_string)
}

#[test]
fn a_plugin_built_by_another_compiler_loads_and_trains() {
    let Some(toolchain) = other_toolchain() else {
        skipped(
            "a_plugin_built_by_another_compiler_loads_and_trains",
            "no second Rust toolchain is installed",
        );
        return;
    };
    let target = stage().parent().unwrap().join("other-compiler");
    let built = Command::new("rustup")
        .args(["run", &toolchain, "cargo", "build", "--quiet", "--offline", "-p", "altgrad-example-sgd"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env_remove("RUSTC")
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let bench = Bench::new();
    let library = bench.add_plugin(&target.join("debug/libaltgrad_example_sgd.so"));
    bench.add_plugin(&plugin("e5m2.so"));
    let inspected = bench.host(&["plugins", "inspect", &library.display().to_string()]);
    assert_eq!(inspected.code, 0, "{}", inspected.stderr);
    let version = rustc_version(Some(&toolchain)).unwrap();
    assert!(inspected.stdout.contains(&version), "{version} in:\n{}", inspected.stdout);
    bench.write("tiny.toml", &format!("{TINY}\n[plugins]\ndir = \"plugins\"\n").replace("adamw", "sgd"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
