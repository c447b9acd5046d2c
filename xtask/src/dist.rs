//! `cargo xtask dist`: one archive that runs in any folder.
//!
//! In it: the host and its plugins, `configs`, the book (`docs`), `results`, `plugin-api` as source that builds by
//! itself (a dependency of crates from `plugins new`), shell completions, manual pages, the Python package as a wheel,
//! and licences, those of dependencies included. The packed files are those that `stage` has built.

use std::{
    collections::BTreeSet,
    env::consts::ARCH,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    RELEASE, cargo, copy,
    files::{copy_folder, plugin_api, ran, write_program},
    packages, plugins, root, stage, target_dir, wheel,
};

/// The archive's folder, and its name.
fn name() -> String {
    format!("altgrad-{}-{ARCH}-linux", env!("CARGO_PKG_VERSION"))
}
/// Copied as they are, from the root: all that `README.md` and the book link to.
const FILES: [&str; 9] = [
    "README.md",
    "CHANGELOG.md",
    "CHANGELOG-development.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CITATION.cff",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "host/conformance/EXHAUSTIVE.md",
];
const FOLDERS: [&str; 4] = ["configs", "docs", "examples", "results"];
/// Shells, and the names of their completion files.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "altgrad-host.bash"), ("zsh", "_altgrad-host"), ("fish", "altgrad-host.fish")];

/// The options on the command line.
#[derive(Default)]
struct Asked {
    /// Pack this folder's host and plugins instead of building them.
    staged: Option<PathBuf>,
    /// The destination of archive and folder; the target folder unless given.
    out: Option<PathBuf>,
    /// Leave the wheel out.
    no_wheel: bool,
    /// For cargo.
    rest: Vec<String>,
}

impl Asked {
    fn read(args: &[String]) -> Result<Self, io::Error> {
        let mut asked = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut path =
                || args.next().map(PathBuf::from).ok_or_else(|| io::Error::other(format!("{arg} DIR")));
            match arg.as_str() {
                "--staged" => asked.staged = Some(path()?),
                "--out" => asked.out = Some(path()?),
                "--no-wheel" => asked.no_wheel = true,
                _ => asked.rest.push(arg.clone()),
            }
        }
        Ok(asked)
    }

    /// The folder of host and plugins, built unless it was given.
    fn staged(&self) -> Result<PathBuf, io::Error> {
        self.staged.clone().map_or_else(|| stage(&RELEASE, &self.rest), Ok)
    }

    fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(target_dir)
    }
}

/// `cargo xtask wheel`.
pub fn wheel(args: &[String]) -> Result<u8, io::Error> {
    let asked = Asked::read(args)?;
    println!("{}", wheel::build(&asked.staged()?, &asked.out())?.display());
    Ok(0)
}

pub fn run(args: &[String]) -> Result<u8, io::Error> {
    let asked = Asked::read(args)?;
    let (staged, out) = (asked.staged()?, asked.out());
    let (name, folder) = (name(), out.join(name()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    assemble(&staged, &folder)?;
    if !asked.no_wheel {
        wheel::build(&staged, &folder)?;
    }
    licences(&folder.join("licences"), &asked.rest)?;
    let archive = out.join(format!("{name}.tar.gz"));
    // Equal contents make equal archives.
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let mut tar = Command::new("tar");
    ran(tar.args(same).arg("-C").arg(&out).arg("-czf").arg(&archive).arg(&name))?;
    let file = archive.file_name().unwrap_or_default();
    let sum = ran(Command::new("sha256sum").arg(file).current_dir(&out))?.stdout;
    fs::write(out.join(format!("{name}.tar.gz.sha256")), sum)?;
    copy(&root().join("xtask/install.sh"), &out.join("install.sh"))?;
    println!("{} ({} MB)", archive.display(), fs::metadata(&archive)?.len() / 1_000_000);
    Ok(0)
}

/// Everything but other people's licences.
fn assemble(staged: &Path, folder: &Path) -> Result<(), io::Error> {
    copy(&staged.join("altgrad-host"), &folder.join("altgrad-host"))?;
    write_program(&folder.join(wheel::SHORT.0), wheel::SHORT.1)?;
    copy_folder(&staged.join("plugins"), &folder.join("plugins"))?;
    fs::create_dir_all(folder.join("host/conformance"))?;
    for file in FILES {
        copy(&root().join(file), &folder.join(file))?;
    }
    for name in FOLDERS {
        copy_folder(&root().join(name), &folder.join(name))?;
    }
    plugin_api(folder)?;
    let host = folder.join("altgrad-host");
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, file) in COMPLETIONS {
        fs::write(completions.join(file), ran(Command::new(&host).args(["completions", shell]))?.stdout)?;
    }
    ran(Command::new(&host).arg("man").arg(folder.join("man")))?;
    Ok(())
}

/// A list of all packages that are built in, with their licences, and the texts they come with.
fn licences(folder: &Path, features: &[String]) -> Result<(), io::Error> {
    let mut tree = cargo();
    tree.args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let tree = ran(tree.args(packages(&plugins()?)).args(["-p", "altgrad-python"]).args(features))?;
    // `serde v1.0.229`, perhaps followed by `(proc-macro)`.
    let built_in: BTreeSet<(String, String)> = String::from_utf8_lossy(&tree.stdout)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_string(), words.next()?.trim_start_matches('v').to_string()))
        })
        .collect();
    let metadata = ran(cargo()
        .args(["metadata", "--format-version", "1"])
        .args(["--filter-platform", &format!("{ARCH}-unknown-linux-gnu")]))?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout).map_err(io::Error::other)?;
    let mut list = String::from(
        "Packages that are built into altgrad's host, plugins and Python package, and their licences.\n\n",
    );
    fs::create_dir_all(folder)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or("unknown").to_string();
        let (name, version) = (text("name"), text("version"));
        // Packages without a source are this project's own.
        if package["source"].is_null() || !built_in.contains(&(name.clone(), version.clone())) {
            continue;
        }
        list += &format!("{name} {version}: {} ({})\n", text("license"), text("repository"));
        let manifest = text("manifest_path");
        let from = Path::new(&manifest).parent().unwrap_or(Path::new("."));
        copy_licences(from, &folder.join(format!("{name}-{version}")))?;
    }
    fs::write(folder.join("THIRD-PARTY.txt"), list)
}

/// The licence files of a package's folder.
fn copy_licences(from: &Path, to: &Path) -> Result<(), io::Error> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if is_licence.iter().any(|word| name.starts_with(word)) && entry.file_type()?.is_file() {
            fs::create_dir_all(to)?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
