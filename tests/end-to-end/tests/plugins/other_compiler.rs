//! A plugin built by another compiler loads and trains. Skipped by name where there is no second toolchain.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use altgrad_end_to_end::{Bench, TINY, plugin, skipped, stage};

/// The oldest compiler of plugin-api, from its manifest: 1 and this.
const OLDEST_MINOR: u32 = 87;

/// A compiler and its cargo.
struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    /// `rustc --version`.
    version: String,
}

impl Toolchain {
    fn new(folder: &Path) -> Option<Self> {
        let (rustc, cargo) = (folder.join("rustc"), folder.join("cargo"));
        let version = version(&rustc)?;
        cargo.is_file().then_some(Self { rustc, cargo, version })
    }

    /// True if plugin-api compiles with it.
    fn is_new_enough(&self) -> bool {
        let minor = self.version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        minor.is_some_and(|minor| minor >= OLDEST_MINOR)
    }
}

/// `rustc --version`.
fn version(rustc: &Path) -> Option<String> {
    let output =
        Command::new(rustc).arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// A toolchain of another version: the system's package, or one of rustup's.
fn other_toolchain() -> Option<Toolchain> {
    let own = version(Path::new("rustc"))?;
    let rustup = Command::new("rustup").args(["toolchain", "list", "--verbose"]).output();
    let listed =
        rustup.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // `NAME (active, default) /PATH`: the path is the last word.
    let folders =
        listed.lines().filter_map(|line| Some(Path::new(line.split_whitespace().next_back()?).join("bin")));
    let system = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let found = system.into_iter().chain(folders).filter_map(|folder| Toolchain::new(&folder));
    found.into_iter().find(|toolchain| toolchain.version != own && toolchain.is_new_enough())
}

#[test]
#[ignore = "--all: another compiler"]
fn a_plugin_built_by_another_compiler_loads_and_trains() {
    let Some(toolchain) = other_toolchain() else {
        skipped(
            "a_plugin_built_by_another_compiler_loads_and_trains",
            "no second Rust toolchain that compiles plugin-api is installed",
        );
        return;
    };
    let target = stage().parent().unwrap().join("other-compiler");
    let mut cargo = Command::new(&toolchain.cargo);
    cargo.args(["build", "--quiet", "--offline", "--ignore-rust-version", "-p", "altgrad-example-sgd"]);
    // The build is small and runs for six steps: optimising its dependencies would take longer.
    for setting in ["opt-level=0", "package.\"*\".opt-level=0", "debug=false"] {
        cargo.arg("--config").arg(format!("profile.dev.{setting}"));
    }
    let built = cargo
        .arg("--target-dir")
        .arg(&target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("RUSTC", &toolchain.rustc)
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let bench = Bench::new();
    let library = bench.add_plugin(&target.join("debug/libaltgrad_example_sgd.so"));
    bench.add_plugin(&plugin("e5m2.so"));
    let inspected = bench.host(&["plugins", "inspect", &library.display().to_string()]);
    assert_eq!(inspected.code, 0, "{}", inspected.stderr);
    assert!(inspected.stdout.contains(&toolchain.version), "{} in:\n{}", toolchain.version, inspected.stdout);
    bench.write("tiny.toml", &format!("{TINY}\n[plugins]\ndir = \"plugins\"\n").replace("adamw", "sgd"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
