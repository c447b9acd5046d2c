//! `host/cli/build.rs`, compiled by itself, in repositories of every sort.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, SystemTime},
};

use altgrad_end_to_end::skipped;
use tempfile::TempDir;

use super::{outside_of_hooks, root};

/// The build script, and a folder for repositories.
struct Script {
    program: PathBuf,
    folder: TempDir,
}

/// The script's output for cargo.
struct BuildFacts {
    commit: String,
    watched: Vec<PathBuf>,
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn git(folder: &Path, args: &[&str]) -> String {
    let mut git = outside_of_hooks("git");
    git.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]);
    String::from_utf8_lossy(&ran(git.args(args)).stdout).trim().to_string()
}

impl Script {
    fn compiled() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("build-script");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        ran(Command::new(rustc)
            .args(["--edition", "2024", "-o"])
            .arg(&program)
            .arg(root().join("host/cli/build.rs")));
        Self { program, folder }
    }

    /// A source tree as far as the script looks.
    fn tree(&self, name: &str) -> PathBuf {
        let root = self.folder.path().join(name);
        for folder in ["host/cli", "plugin-api", "docs"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("file"), "text").unwrap();
        }
        fs::write(root.join("Cargo.toml"), "").unwrap();
        root
    }

    fn run(&self, root: &Path, path: Option<&str>, given: Option<&str>) -> BuildFacts {
        let mut command = outside_of_hooks(&self.program);
        command.env("CARGO_MANIFEST_DIR", root.join("host/cli")).env_remove("ALTGRAD_COMMIT");
        path.map(|path| command.env("PATH", path));
        given.map(|commit| command.env("ALTGRAD_COMMIT", commit));
        let said = String::from_utf8_lossy(&ran(&mut command).stdout).into_owned();
        let all = |key: &str| said.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
        let watched = all("cargo::rerun-if-changed=").into_iter().filter(|path| *path != "build.rs");
        BuildFacts {
            commit: all("cargo::rustc-env=ALTGRAD_COMMIT=").concat(),
            watched: watched.map(PathBuf::from).collect(),
        }
    }

    fn commit_of(&self, root: &Path) -> String {
        self.run(root, None, None).commit
    }

    /// Checks that the output is right now, and that cargo runs the script again after another
    /// commit.
    fn follows(&self, root: &Path, what: &str) {
        let head = || git(root, &["rev-parse", "--short=12", "HEAD"]);
        let told = self.run(root, None, None);
        assert_eq!(told.commit, head(), "{what}");
        assert!(told.watched.iter().all(|path| path.exists()), "{what}: {:?}", told.watched);
        let before = newest(&told.watched);
        thread::sleep(Duration::from_millis(20));
        git(root, &["commit", "-q", "--allow-empty", "-m", what]);
        assert!(newest(&told.watched) > before, "{what}: {:?}", told.watched);
        assert_eq!(self.commit_of(root), head(), "{what}");
    }
}

/// The time of the last change below the paths, which cargo compares.
fn newest(paths: &[PathBuf]) -> Option<SystemTime> {
    let of = |path: &PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        newest(&below).max(fs::metadata(path).and_then(|data| data.modified()).ok())
    };
    paths.iter().filter_map(of).max()
}

#[test]
fn the_build_script_knows_the_commit() {
    if Command::new("git").arg("--version").output().is_err() {
        return skipped("the_build_script_knows_the_commit", "there is no git");
    }
    let script = Script::compiled();
    let archive = script.tree("archive");
    assert_eq!(script.commit_of(&archive), "unknown");
    assert_eq!(script.run(&archive, None, Some("v1")).commit, "v1");

    let root = script.tree("clone");
    git(&root, &["init", "-q", "-b", "topic/branch"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "first"]);
    script.follows(&root, "a branch");
    assert_eq!(script.run(&root, Some(""), None).commit, "unknown", "without git");
    git(&root, &["pack-refs", "--all"]);
    script.follows(&root, "a packed branch");
    git(&root, &["worktree", "add", "-q", "-b", "other", "../worktree"]);
    script.follows(&script.folder.path().join("worktree"), "a worktree");
    assert_ne!(script.commit_of(&root), script.commit_of(&script.folder.path().join("worktree")));
    let clean = script.commit_of(&root);
    fs::write(root.join("docs/file"), "changed").unwrap();
    fs::write(root.join("host/untracked"), "new").unwrap();
    assert_eq!(script.commit_of(&root), clean, "nothing that the host is built from changed");
    fs::write(root.join("host/cli/file"), "changed").unwrap();
    assert_eq!(script.commit_of(&root), format!("{clean}-changed"));
    git(&root, &["checkout", "-q", "."]);
    git(&root, &["checkout", "-q", "--detach"]);
    script.follows(&root, "no branch");

    git(&root, &["tag", "other"]);
    git(&root, &["tag", "v0.1.0"]);
    assert_eq!(script.commit_of(&root), "v0.1.0");
    let before = newest(&script.run(&root, None, None).watched);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "after the tag"]);
    assert!(newest(&script.run(&root, None, None).watched) > before);
    let head = git(&root, &["rev-parse", "--short=12", "HEAD"]);
    assert_eq!(script.commit_of(&root), format!("v0.1.0-1-g{head}"));

    // An archive unpacked in another project's clone.
    let inner = script.tree("clone/vendor/altgrad");
    assert_eq!(script.commit_of(&inner), "unknown");
}
