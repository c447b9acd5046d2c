//! Dependencies that the default build of host and plugins does not compile: shader compilers and
//! GPU runtimes.

#![allow(clippy::unwrap_used)]

use std::{env, fs, process::Command};

use altgrad_end_to_end::root;

/// Prefixes of names: kernel compilers, and their dependencies.
const ABSENT: [&str; 7] = ["cubecl", "pliron", "naga", "wgpu", "tracel-llvm", "cudarc", "altgrad-kernel-"];
/// burn's own foundations, small and without a compiler.
const BURNS: [&str; 3] = ["cubecl-common", "cubecl-environment", "cubecl-zspace"];

/// The host and all plugins, by the convention of folders.
fn packages() -> Vec<String> {
    let mut packages = vec!["altgrad-host".to_string()];
    for (folder, kind) in [("formats", "format"), ("optimizers", "optimizer"), ("sinks", "sink")] {
        for entry in fs::read_dir(root().join("plugins").join(folder)).unwrap() {
            packages.push(format!("altgrad-{kind}-{}", entry.unwrap().file_name().display()));
        }
    }
    packages
}

/// Names of all packages that a build of these compiles.
fn compiled(packages: &[String]) -> Vec<String> {
    let mut tree = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.current_dir(root()).args(["tree", "--locked", "--offline", "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect()
}

fn found(names: &[String]) -> Vec<&str> {
    let absent = |name: &&str| ABSENT.iter().any(|start| name.starts_with(start)) && !BURNS.contains(name);
    let mut found: Vec<&str> = names.iter().map(String::as_str).filter(absent).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn the_default_build_compiles_no_kernel_compiler() {
    let names = compiled(&packages());
    assert!(names.iter().any(|name| name == "burn-flex"), "the tree was not read: {names:?}");
    assert_eq!(found(&names), Vec::<&str>::new());
}

/// The control: offline, so of a package whose dependencies these tests have built themselves.
#[test]
fn what_makes_kernel_texts_is_told_apart() {
    let names = compiled(&["altgrad-kernel-generator".into()]);
    for name in ["altgrad-kernel-kit", "cubecl-cpp", "pliron", "wgpu"] {
        assert!(found(&names).contains(&name), "{name} is not in {names:?}");
    }
}
