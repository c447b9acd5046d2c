//! The Python package: installed from the clone into a fresh environment, then its own tests (`python/tests`), which also run the
//! examples of docs/python.md and the notebooks. Tests that lack a package are skipped by name.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use altgrad_end_to_end::{built, skipped, stage};

/// The only test here.
const NAME: &str = "the_package_installs_and_passes_its_tests";
/// Of the registry, one by one: what is missing costs the tests of that package only.
const PACKAGES: [&str; 4] = ["pandas", "polars", "ml_dtypes", "gfloat"];

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A fresh environment with maturin and NumPy.
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
    let found = pip(&python, &["maturin>=1.9,<2", "numpy"]);
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

/// `pip install ./python`, built like the tests, with the staged plugins.
fn install(python: &Path) {
    let installed = Command::new(python)
        .args(["-m", "pip", "install", "-q", "./python"])
        .env("ALTGRAD_PLUGINS", stage().join("plugins"))
        .env("MATURIN_PEP517_ARGS", "--profile dev")
        .env("CARGO_TARGET_DIR", stage().parent().unwrap())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", text(&installed));
}

#[test]
fn the_package_installs_and_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    let python = match environment(folder.path()) {
        Ok(python) => python,
        Err(why) => return skipped(NAME, &why),
    };
    install(&python);
    for package in PACKAGES {
        if !pip(&python, &[package]).status.success() {
            skipped(NAME, &format!("{package} cannot be installed"));
        }
    }
    let libraries = built("libaltgrad_example_posit8.so");
    let mut tests = Command::new(&python);
    tests
        // Discovery skips a module whose import says so.
        .args(["-W", "ignore", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."])
        // Not the folder `python`: the installed package is tested, not the sources.
        .current_dir(link_of_tests(folder.path()))
        .env("ALTGRAD_HOST", stage().join("altgrad-host"))
        .env("ALTGRAD_LIBRARIES", libraries.parent().unwrap());
    if let Some(packages) = other_packages() {
        tests.env("PYTHONPATH", packages);
    }
    let done = tests.output().unwrap();
    let said = text(&done);
    for line in said.lines().filter(|line| line.contains("... skipped ")) {
        let (test, why) = line.split_once(" ... skipped ").unwrap();
        skipped(test, why);
    }
    assert!(done.status.success(), "{said}");
    assert!(said.contains("\nOK"), "{said}");
}

/// A folder with nothing but a link to the tests.
fn link_of_tests(folder: &Path) -> PathBuf {
    let only = folder.join("only-tests");
    fs::create_dir(&only).unwrap();
    std::os::unix::fs::symlink(root().join("python/tests"), only.join("tests")).unwrap();
    only
}
