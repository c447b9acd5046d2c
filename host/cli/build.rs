//! Gives the program the commit it is built from: `ALTGRAD_COMMIT`, which `--version` shows.
//!
//! As `git describe` says it: `v0.1.0` at the tag of a version, `v0.1.0-12-g` and twelve hex digits after it, the
//! digits alone without such a tag; followed by `-changed` if tracked sources of the host differ from that commit.
//! Outside of a clone, or without git, it is the value of the variable of that name, else `unknown`. Cargo runs this
//! again when the commit or a source of the host changes, and compiles this package only.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The sources of the host, as paths in the repository.
const SOURCES: [&str; 4] = ["host", "plugin-api", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ALTGRAD_COMMIT");
    let commit = env::var("ALTGRAD_COMMIT").ok().or_else(|| Clone::around(&root()?)?.commit());
    println!("cargo::rustc-env=ALTGRAD_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The workspace, by its true name.
fn root() -> Option<PathBuf> {
    Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()
}

/// A working tree of git.
struct Clone {
    root: PathBuf,
}

impl Clone {
    /// The clone whose root that is: an unpacked source archive may lie in someone else's.
    fn around(root: &Path) -> Option<Self> {
        let clone = Self { root: root.into() };
        let top = PathBuf::from(clone.git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
        (top == root).then_some(clone)
    }

    /// Its commit; tells cargo the files it depends on.
    fn commit(&self) -> Option<String> {
        self.watch();
        let commit = self.git(&["describe", "--tags", "--match", "v[0-9]*", "--always", "--abbrev=12"])?;
        let status = [&["status", "--porcelain", "--untracked-files=no", "--"], &SOURCES[..]].concat();
        let changed = self.git(&status).is_none_or(|changes| !changes.is_empty());
        Some(if changed { format!("{commit}-changed") } else { commit })
    }

    /// Tells cargo the sources, and git's files that determine the checked-out commit. Only existing files: cargo
    /// treats a missing file as changed.
    fn watch(&self) {
        let mut paths: Vec<PathBuf> = SOURCES.iter().map(|source| self.root.join(source)).collect();
        paths.extend(
            ["HEAD", "packed-refs", "refs/tags", "reftable"].iter().filter_map(|name| self.git_path(name)),
        );
        if let Some(branch) = self.git(&["symbolic-ref", "-q", "HEAD"]).and_then(|name| self.git_path(&name))
        {
            // A branch that is packed gets a file of its own with its next commit.
            paths.extend(branch.ancestors().find(|path| path.exists()).map(PathBuf::from));
        }
        for path in paths.iter().filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }

    /// The path of git's files; worktrees share some of them.
    fn git_path(&self, name: &str) -> Option<PathBuf> {
        Some(self.root.join(self.git(&["rev-parse", "--git-path", name])?))
    }

    /// The output of a git command; none if it fails or git is missing.
    fn git(&self, args: &[&str]) -> Option<String> {
        let mut git = Command::new("git");
        // Nothing is written: another git may be at work.
        let output = git.arg("-C").arg(&self.root).args(args).env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    }
}
