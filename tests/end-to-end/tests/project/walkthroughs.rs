//! The walkthroughs of CONTRIBUTING.md: their diffs apply to a copy of the repository, and the copy builds.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use altgrad_end_to_end::skipped;

use super::{outside_of_hooks, root};

/// The diffs of a Markdown page, in order.
fn diffs(page: &str) -> Vec<String> {
    let blocks = page.split("```diff\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_string()).collect()
}

/// Cargo's target folder, which the copy shares: crates of the registry are checked once.
fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A copy of the repository, removed when dropped: as long as its files exist and are unchanged, cargo takes what it
/// built from them for the crates of the repository itself, which share the target folder.
struct RepositoryCopy(PathBuf);

impl Drop for RepositoryCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies the files that git knows or would add; without a repository, as in a source archive, git's message.
fn copy_of_the_repository() -> Result<RepositoryCopy, String> {
    let copy = target().join("tests/walkthroughs");
    let _ = fs::remove_dir_all(&copy);
    let copy = RepositoryCopy(copy);
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let files = outside_of_hooks("git").args(list).current_dir(root()).output();
    let files = files.map_err(|error| format!("git cannot be started: {error}"))?;
    if !files.status.success() {
        return Err(String::from_utf8_lossy(&files.stderr).trim().to_string());
    }
    for file in String::from_utf8(files.stdout).unwrap().lines() {
        let (from, to) = (root().join(file), copy.0.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    Ok(copy)
}

/// Runs `git apply` with the diff in a folder; with `--check` it changes nothing.
fn apply(diff: &str, folder: &Path, options: &[&str]) {
    let mut git = outside_of_hooks("git");
    git.args(["apply", "--recount"]).args(options).arg("-").current_dir(folder);
    git.env("GIT_CEILING_DIRECTORIES", target());
    let mut child = git.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(diff.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a diff of CONTRIBUTING.md no longer applies: {said}\n{diff}");
}

#[test]
fn walkthroughs_apply() {
    for diff in diffs(&fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap()) {
        apply(&diff, &root(), &["--check"]);
    }
}

/// Metrics are the host's alone: one more leaves the plugins' interface and every plugin as they are, so none is built
/// again.
#[test]
fn a_metric_touches_no_plugin() {
    let diffs = diffs(&fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap());
    let files: Vec<&str> = diffs[..2]
        .iter()
        .flat_map(|diff| diff.lines())
        .filter_map(|line| line.strip_prefix("+++ b/"))
        .collect();
    assert!(files.len() == 2 && files.iter().all(|file| file.starts_with("host/")), "{files:?}");
}

#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_walkthroughs_apply_and_build() {
    let diffs = diffs(&fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap());
    assert_eq!(diffs.len(), 8, "a metric, a scaling rule, a model option and a sink: two files each");
    let copy = match copy_of_the_repository() {
        Ok(copy) => copy,
        Err(why) => return skipped("on_demand_walkthroughs_apply_and_build", &why),
    };
    for diff in &diffs {
        apply(diff, &copy.0, &[]);
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the features of the gate's lints, which share what is checked.
    cargo.args(["check", "--offline", "--workspace", "--lib", "--bins", "--examples"]).current_dir(&copy.0);
    cargo.args(["--features", "altgrad-host/cuda,altgrad-host/wgpu"]);
    let output = cargo.env("CARGO_TARGET_DIR", target()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
