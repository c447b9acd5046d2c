//! `cargo xtask gpu-bundle`: the GPU tests and the benchmark as one archive, for a machine with a GPU and without Rust.
//!
//! In it: the host and its plugins, the binaries of the tests, a run file, the commit, and `run.py`, which runs them
//! all; with `--torch` also another trainer that the benchmark is compared with.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Build, copy, gpu_tests, root, stage, target_dir};

/// The script of the archive with its modules, and the run file that it trains.
const FILES: [&str; 6] = [
    "xtask/gpu-bundle/run.py",
    "xtask/gpu-bundle/parts.py",
    "xtask/gpu-bundle/processes.py",
    "xtask/gpu-bundle/summary.py",
    "xtask/gpu-bundle/machine.py",
    "configs/exp.toml",
];
/// The name of `--torch FILE` in the archive; the script looks for it.
const OTHER_TRAINER: &str = "other_trainer.py";
/// Largest size of the archive in MiB, unless `--most-mib` says otherwise.
const MOST_MIB: u64 = 64;

const PACKED: Build =
    Build { profile: "release", built: "release", staged: "altgrad-gpu-bundle", workspace: false };

/// The options.
struct Options {
    most_mib: u64,
    torch: Option<PathBuf>,
    /// Cargo's: CUDA, unless features are given.
    build: Vec<String>,
}

pub fn run(args: &[String]) -> Result<u8, io::Error> {
    let options = read(args)?;
    let fixture = ["-p", "altgrad-fixture-misbehaver"].map(String::from);
    let folder = stage(&PACKED, &[options.build.as_slice(), &fixture].concat())?;
    let library = "libaltgrad_fixture_misbehaver.so";
    copy(&target_dir().join(PACKED.built).join(library), &folder.join(library))?;
    copy_tests(&folder.join("tests"), &[fixture.as_slice(), &options.build].concat())?;
    for file in FILES.map(|file| root().join(file)) {
        copy(&file, &folder.join(file.file_name().unwrap_or_default()))?;
    }
    let other = folder.join(OTHER_TRAINER);
    match &options.torch {
        Some(file) => copy(file, &other)?,
        None if other.exists() => fs::remove_file(&other)?,
        None => {}
    }
    fs::write(folder.join("build.json"), format!("{:#}\n", source()))?;
    let archive = pack()?;
    let mib = fs::metadata(&archive)?.len().div_ceil(1 << 20);
    println!("{} ({mib} MiB)", archive.display());
    if mib > options.most_mib {
        let most = options.most_mib;
        return Err(io::Error::other(format!("the archive is larger than {most} MiB (--most-mib)")));
    }
    Ok(0)
}

fn read(args: &[String]) -> Result<Options, io::Error> {
    let (mut most_mib, mut torch, mut build) = (MOST_MIB, None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--most-mib" => {
                let number = args.next().and_then(|number| number.parse().ok());
                most_mib = number.ok_or_else(|| io::Error::other("--most-mib N"))?;
            }
            "--torch" => {
                torch = Some(args.next().map(PathBuf::from).ok_or_else(|| io::Error::other("--torch FILE"))?);
            }
            _ => build.push(arg.clone()),
        }
    }
    if build.is_empty() {
        build.extend(["--features", "cuda"].map(String::from));
    }
    Ok(Options { most_mib, torch, build })
}

/// The commit of the sources, and whether files differ from it (`dirty`); null without git.
fn source() -> serde_json::Value {
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(root()).args(args).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
        output.status.success().then_some(said)
    };
    let dirty = git(&["status", "--porcelain"]).map(|files| !files.is_empty());
    serde_json::json!({ "commit": git(&["rev-parse", "HEAD"]), "dirty": dirty })
}

/// Builds the tests, and copies their binaries into an empty folder.
fn copy_tests(to: &Path, build_args: &[String]) -> Result<(), io::Error> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for test in
        gpu_tests(PACKED.profile, build_args)?.map_err(|_| io::Error::other("the tests' build failed"))?
    {
        copy(&test.executable, &to.join(test.target()))?;
    }
    Ok(())
}

/// Packs the staged folder without files that its script makes: with xz, or gzip where there is no xz.
fn pack() -> Result<PathBuf, io::Error> {
    let has_xz = Command::new("xz").arg("--version").output().is_ok();
    let (compress, end) = if has_xz { ("--xz", "tar.xz") } else { ("--gzip", "tar.gz") };
    let archive = target_dir().join(format!("{}.{end}", PACKED.staged));
    let mut tar = Command::new("tar");
    tar.args(["results", "__pycache__"].map(|name| format!("--exclude={}/{name}", PACKED.staged)));
    tar.arg("-C").arg(target_dir());
    tar.arg(compress).arg("-cf").arg(&archive).arg(PACKED.staged).env("XZ_OPT", "-9");
    if tar.status()?.success() { Ok(archive) } else { Err(io::Error::other("tar failed")) }
}
