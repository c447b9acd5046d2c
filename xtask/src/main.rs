//! `cargo xtask`: the project's own commands, so that one line replaces several.
//!
//! `run` builds host and plugins in release, stages them side by side and starts the host; `test` does the same in
//! dev and runs every test; `test-gpu` builds with GPU support and runs the tests of GPUs, `gpu-bundle` packs them;
//! `stage` only builds and stages, `dist` packs that for others, `wheel` builds the Python package, `docs` writes the
//! book's generated pages. Plugins are found by convention: the folder `plugins/formats/e5m2` holds the package
//! `altgrad-format-e5m2`, staged as `plugins/e5m2.so`.

mod cuda_on_cpu;
mod dist;
mod docs;
mod files;
mod gpu_bundle;
mod kernels;
mod tests;
mod wheel;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

const USAGE: &str = "\
usage: cargo xtask COMMAND
  run CONFIG [ARGS...]        build (release), stage, and train: altgrad-host run CONFIG ARGS...
  host [ARGS...]              build (release), stage, and start altgrad-host ARGS...
  stage [--features F]        build (release) and stage into target/altgrad
  dist [--features F] [--out DIR] [--staged DIR] [--no-wheel]
                              build (release), stage, and pack for others: target/altgrad-VERSION-ARCH-linux.tar.gz, its checksum
                              and install.sh, with the Python package as a wheel; --staged packs the host and plugins of that
                              folder instead
  wheel [--out DIR] [--staged DIR]
                              only the wheel, which contains the host with all plugins
  docs [--check]              write the pages of docs/ that are made from the types; --check only says whether they are so
  kernels [--check | --texts DIR]
                              write the plugins' kernel texts (dev; builds cubecl, minutes); --check only says whether they are
                              so, --texts writes all texts for reading
  test [--all] [ARGS...]      build (dev), stage into target/altgrad-dev, and cargo test --workspace ARGS...; --all adds the tests
                              of kills, I/O errors, browsers, Slurm and the like, more damaged inputs, and examples of documentation
  test-gpu [--cuda-on-cpu] [ARGS OF TESTS...]
                              build with CUDA and wgpu (dev), stage into target/altgrad-gpu, and run the GPU tests; --cuda-on-cpu
                              runs them on a CUDA device that is the CPU: it computes the kernels' CUDA text, compiled by g++
  gpu-bundle [--features F] [--most-mib N] [--torch FILE]
                              the GPU tests as an archive, target/altgrad-gpu-bundle.tar.xz, for a machine without Rust: build
                              (release, CUDA unless F says otherwise) and pack, with FILE, a trainer in PyTorch to compare with;
                              fails above N MiB (64); unpack there and run: python3 altgrad-gpu-bundle/run.py";

/// Folder of a kind's plugins, and the kind in package names.
const KINDS: [(&str, &str); 3] = [("formats", "format"), ("optimizers", "optimizer"), ("sinks", "sink")];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) if command == "run" => {
            let arguments: Vec<String> = std::iter::once("run".into()).chain(rest.iter().cloned()).collect();
            host(&arguments)
        }
        Some((command, rest)) if command == "host" => host(rest),
        Some((command, rest)) if command == "stage" => stage(&RELEASE, rest).map(|_| 0),
        Some((command, rest)) if command == "dist" => dist::run(rest),
        Some((command, rest)) if command == "wheel" => dist::wheel(rest),
        Some((command, rest)) if command == "docs" => docs::run(rest),
        Some((command, rest)) if command == "kernels" => kernels::run(rest),
        Some((command, rest)) if command == "test" => tests::run(rest),
        Some((command, rest)) if command == "test-gpu" => test_gpu(rest),
        Some((command, rest)) if command == "gpu-bundle" => gpu_bundle::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

fn host(args: &[String]) -> Result<u8, io::Error> {
    let folder = stage(&RELEASE, &[])?;
    // Ctrl-C is sent to the whole process group: the host handles it, and its exit code is ours.
    let status = Command::new(folder.join("altgrad-host")).args(args).status()?;
    Ok(code(status))
}

/// The tests get all arguments but the one that is read here. They are not started by cargo: the variables of a device
/// that is the CPU would change the build.
fn test_gpu(args: &[String]) -> Result<u8, io::Error> {
    let own = "--cuda-on-cpu";
    let on_cpu = args.iter().any(|arg| arg == own);
    let mut variables = if on_cpu { cuda_on_cpu::variables()? } else { Vec::new() };
    let args: Vec<&str> = args.iter().map(String::as_str).filter(|arg| ![own, "--"].contains(arg)).collect();
    let with = ["--features", "cuda,wgpu", "-p", "altgrad-fixture-misbehaver"].map(String::from);
    variables.push(("ALTGRAD_STAGE", stage(&GPU, &with)?.display().to_string()));
    let binaries = match gpu_tests("test", &with)? {
        Ok(binaries) => binaries,
        Err(status) => return Ok(code(status)),
    };
    let mut failed = 0;
    for binary in binaries {
        let status = binary.command(&args, &variables).status()?;
        failed = failed.max(code(status));
    }
    Ok(failed)
}

/// Builds the tests of GPUs; else how the build ended.
fn gpu_tests(profile: &str, args: &[String]) -> Result<Result<Vec<tests::Binary>, ExitStatus>, io::Error> {
    let mut build = cargo();
    // The packages of the build before: otherwise their dependencies would be built again with other features.
    build.args(["test", "--profile", profile]).args(packages(&plugins()?));
    build.args(["-p", "altgrad-engine", "-p", "altgrad-end-to-end"]);
    tests::built(build.args(GPU_TESTS.iter().flat_map(|test| ["--test", test])).args(args))
}

/// The test binaries of GPUs: one of the engine, one of `tests/end-to-end`. The bundle's script names them too.
const GPU_TESTS: [&str; 2] = ["devices", "gpu"];

/// Host and plugins, for cargo.
fn packages(plugins: &[Plugin]) -> Vec<String> {
    let names = ["altgrad-host"].into_iter().chain(plugins.iter().map(|plugin| plugin.package.as_str()));
    names.flat_map(|name| ["-p".to_string(), name.to_string()]).collect()
}

/// A way to build host and plugins, and their destination.
struct Build {
    profile: &'static str,
    /// Cargo's folder for the profile.
    built: &'static str,
    staged: &'static str,
    /// Tests and examples as well; a feature of the host cannot be given then.
    workspace: bool,
}

const RELEASE: Build = Build { profile: "release", built: "release", staged: "altgrad", workspace: false };
const DEV: Build = Build { profile: "dev", built: "debug", staged: "altgrad-dev", workspace: true };
const GPU: Build = Build { profile: "dev", built: "debug", staged: "altgrad-gpu", workspace: false };

/// Builds and puts host and plugins side by side; returns the folder.
fn stage(how: &Build, build_args: &[String]) -> Result<PathBuf, io::Error> {
    let mut build = cargo();
    build.args(["build", "--profile", how.profile]);
    let plugins = plugins()?;
    if how.workspace {
        // With the features of tests, as `--examples` requires: all dependencies are built once.
        build.args(["--workspace", "--lib", "--bins", "--examples"]);
    } else {
        build.args(packages(&plugins));
    }
    let status = build.args(build_args).status()?;
    if !status.success() {
        return Err(io::Error::other("the build failed"));
    }
    let (built, staged) = (target_dir().join(how.built), target_dir().join(how.staged));
    fs::create_dir_all(staged.join("plugins"))?;
    copy(&built.join("altgrad-host"), &staged.join("altgrad-host"))?;
    for plugin in &plugins {
        let library = format!("lib{}.so", plugin.package.replace('-', "_"));
        let to = staged.join("plugins").join(format!("{}.so", plugin.name));
        copy(&built.join(library), &to)?;
        if how.profile == "dev" {
            strip(&to);
        }
    }
    Ok(staged)
}

/// Removes debug information, in dev 80 % of a library: the host hashes all libraries at each start. Without `strip`,
/// tests are slower.
fn strip(library: &Path) {
    let _ = Command::new("strip").arg("--strip-debug").arg(library).status();
}

struct Plugin {
    name: String,
    package: String,
}

fn plugins() -> Result<Vec<Plugin>, io::Error> {
    let mut found = Vec::new();
    for (folder, kind) in KINDS {
        for entry in fs::read_dir(root().join("plugins").join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            found.push(Plugin { package: format!("altgrad-{kind}-{name}"), name });
        }
    }
    Ok(found)
}

/// Replaces by a new file, so that a process that has the old one mapped keeps it.
fn copy(from: &Path, to: &Path) -> Result<(), io::Error> {
    let named =
        |error: io::Error| io::Error::other(format!("{} to {}: {error}", from.display(), to.display()));
    if to.exists() {
        fs::remove_file(to).map_err(named)?;
    }
    fs::copy(from, to).map_err(named)?;
    Ok(())
}

/// Cargo in the repository, without what cargo set for this program: build scripts that depend on it would run again,
/// and many crates would be compiled again after each `cargo build`.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|own| name.starts_with(own)))
        {
            command.env_remove(name);
        }
    }
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
