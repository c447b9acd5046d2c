//! The Python package: installed from the clone into a fresh environment, then its own tests (`python/tests`), which
//! also run the examples of docs/python.md and the notebooks. Tests that lack a package are skipped by name; `--all`
//! installs those of the registry.
//!
//! The package takes the libraries that the workspace has built. A build of its own, by maturin, would compile
//! dependencies once more with fewer features, for minutes; an ignored test does that.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use altgrad_end_to_end::{Bench, TINY, built, root, skipped, stage};

/// Other packages of the registry. What is missing costs the tests of that package only.
const PACKAGES: [&str; 4] = ["pandas", "polars", "ml_dtypes", "gfloat"];

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A fresh environment with NumPy.
///
/// # Errors
/// What the machine lacks.
fn environment(folder: &Path) -> Result<PathBuf, String> {
    let version = "import sys; sys.exit(sys.version_info < (3, 11))";
    let old = Command::new("python3").args(["-c", version]).output().map_err(|error| error.to_string())?;
    if !old.status.success() {
        return Err("python3 is older than 3.11".into());
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(folder).output();
    let made = made.map_err(|error| error.to_string())?;
    if !made.status.success() {
        return Err(format!("python3 makes no environments: {}", text(&made)));
    }
    let python = folder.join("bin/python");
    let found = pip(&python, &["numpy"]);
    if found.status.success() {
        Ok(python)
    } else {
        Err(format!("pip installs nothing here: {}", text(&found)))
    }
}

fn pip(python: &Path, packages: &[&str]) -> Output {
    Command::new(python).args(["-m", "pip", "install", "-q"]).args(packages).output().unwrap()
}

/// Where the packages of `ALTGRAD_PYTHON` are: PyTorch, if it has it.
fn other_packages() -> Option<String> {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let said = Command::new(env::var_os("ALTGRAD_PYTHON")?).args(["-c", ask]).output().ok()?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_string())
}

/// Names the libraries that the workspace has built.
fn with_built_libraries(command: &mut Command) -> &mut Command {
    command.env("ALTGRAD_PLUGINS", stage().join("plugins")).env("ALTGRAD_CORE", built("lib_core.so"))
}

/// `pip install ./python`.
fn install(python: &Path, prepare: impl Fn(&mut Command) -> &mut Command) {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "-q", "./python"]).current_dir(root());
    let installed = prepare(&mut pip).output().unwrap();
    assert!(installed.status.success(), "{}", text(&installed));
}

/// The wheel that `cargo xtask wheel` writes.
fn wheel(python: &Path, folder: &Path) -> String {
    let mut wheel = Command::new(built("xtask"));
    wheel.args(["wheel", "--staged"]).arg(stage()).arg("--out").arg(folder).env("ALTGRAD_PYTHON", python);
    let done = with_built_libraries(&mut wheel).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    String::from_utf8_lossy(&done.stdout).trim().to_string()
}

/// The names of the files in a wheel.
fn files_of(wheel: &str, python: &Path) -> Vec<String> {
    let listed = Command::new(python).args(["-m", "zipfile", "-l", wheel]).output().unwrap();
    text(&listed).lines().filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

/// Installs a wheel into an environment of its own, in which nothing else is on the path, and trains.
fn assert_brings_the_host(wheel: &str) {
    let bench = Bench::new();
    let fresh = bench.path("fresh");
    assert!(Command::new("python3").args(["-m", "venv"]).arg(&fresh).status().unwrap().success());
    let installed = pip(&fresh.join("bin/python"), &["--no-deps", wheel]);
    assert!(installed.status.success(), "{}", text(&installed));
    bench.write("tiny.toml", TINY);
    let altgrad = |args: &[&str]| {
        let mut command = Command::new(fresh.join("bin/altgrad"));
        command.args(args).current_dir(bench.path("")).env("PATH", fresh.join("bin"));
        let output = command.env("XDG_STATE_HOME", bench.path("state")).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        text(&output)
    };
    assert!(altgrad(&["--version"]).starts_with("altgrad-host "));
    altgrad(&["run", "tiny.toml"]);
    assert!(bench.read("runs/tiny/run.json").contains("\"completed\""));
    altgrad(&["plugins", "new", "--kind", "sink", "lines"]);
    assert!(bench.read("lines/Cargo.toml").contains("lib/altgrad/plugin-api"));
}

#[test]
#[ignore = "--all: installs the Python package"]
fn the_package_installs_and_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    match environment(folder.path()) {
        Ok(python) => {
            install(&python, with_built_libraries);
            assert_all_pass(&python, folder.path(), |_| true);
        }
        Err(why) => skipped("the_package_installs_and_passes_its_tests", &why),
    }
}

#[test]
#[ignore = "--all: installs other packages and a wheel with the host"]
fn the_wheel_brings_the_host_and_agrees_with_other_packages() {
    const NAME: &str = "the_wheel_brings_the_host_and_agrees_with_other_packages";
    let folder = tempfile::tempdir().unwrap();
    let python = match environment(folder.path()) {
        Ok(python) => python,
        Err(why) => return skipped(NAME, &why),
    };
    install(&python, with_built_libraries);
    let wheel = wheel(&python, folder.path());
    let files = files_of(&wheel, &python);
    for file in ["altgrad/_core.abi3.so", "altgrad/torch.py", "altgrad/py.typed", "altgrad/plugins/e4m3.so"] {
        assert!(files.iter().any(|name| name == file), "the wheel lacks {file}: {files:?}");
    }
    assert_brings_the_host(&wheel);
    if !pip(&python, &PACKAGES).status.success() {
        for package in PACKAGES.iter().filter(|package| !pip(&python, &[package]).status.success()) {
            skipped(NAME, &format!("{package} cannot be installed"));
        }
    }
    assert_all_pass(&python, folder.path(), |module| PACKAGES.iter().any(|package| module.contains(package)));
}

/// Runs the modules of the package's tests whose texts are `chosen`.
fn assert_all_pass(python: &Path, folder: &Path, chosen: impl Fn(&str) -> bool) {
    let tests = link_of_tests(folder);
    let mut modules = modules(&tests);
    modules.retain(|module| chosen(&fs::read_to_string(tests.join("tests").join(module)).unwrap()));
    assert!(!modules.is_empty());
    let next = AtomicUsize::new(0);
    // Modules know nothing of each other: as many at a time as there are cores.
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    assert_passes(module, python, &tests);
                }
            });
        }
    });
}

/// The modules of the package's tests, those with most lines first, since they tend to take longest.
fn modules(tests: &Path) -> Vec<String> {
    let mut found: Vec<_> =
        fs::read_dir(tests.join("tests")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test_")));
    found.sort_by_key(|path| std::cmp::Reverse(fs::read_to_string(path).unwrap().lines().count()));
    found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// Runs the tests of a module with the installed package, not the sources: `tests` is a folder with nothing else.
fn assert_passes(module: &str, python: &Path, tests: &Path) {
    let mut command = Command::new(python);
    command
        // Discovery skips a module whose import says so.
        .args(["-W", "ignore", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".", "-p", module])
        .current_dir(tests)
        .env("ALTGRAD_HOST", stage().join("altgrad-host"))
        .env("ALTGRAD_LIBRARIES", built("libaltgrad_example_posit8.so").parent().unwrap());
    if let Some(packages) = other_packages() {
        command.env("PYTHONPATH", packages);
    }
    let done = command.output().unwrap();
    let said = text(&done);
    for line in said.lines().filter(|line| line.contains("... skipped ")) {
        let (test, why) = line.split_once(" ... skipped ").unwrap();
        skipped(test, why);
    }
    assert!(done.status.success() && said.contains("\nOK"), "{module}: {said}");
}

/// Builds everything in release, as for a user: minutes.
#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_the_package_builds_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let python = environment(folder.path()).unwrap();
    install(&python, |pip| pip.env_remove("ALTGRAD_PLUGINS").env_remove("ALTGRAD_CORE"));
    let round =
        "import altgrad; assert len(altgrad.formats()) == 17; print(altgrad.Format('E4M3').info['largest'])";
    let done = Command::new(&python).args(["-c", round]).current_dir(folder.path()).output().unwrap();
    assert_eq!(text(&done), "448.0\n");
}

/// A folder with nothing but a link to the tests.
fn link_of_tests(folder: &Path) -> PathBuf {
    let only = folder.join("only-tests");
    fs::create_dir(&only).unwrap();
    std::os::unix::fs::symlink(root().join("python/tests"), only.join("tests")).unwrap();
    only
}
