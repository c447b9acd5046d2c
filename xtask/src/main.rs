//! `cargo xtask`: the project's own commands, so that one line does what takes several.
//!
//! `run` builds host and plugins in release, stages them side by side and starts the host; `test` does the same in
//! dev and runs every test; `stage` only builds and stages. Plugins are found by convention: the folder
//! `plugins/formats/e5m2` holds the package `altgrad-format-e5m2`, staged as `plugins/e5m2.so`.

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
  test [ARGS...]              build (dev), stage into target/altgrad-dev, and cargo test --workspace ARGS...";

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
        Some((command, rest)) if command == "stage" => stage("release", rest).map(|_| 0),
        Some((command, rest)) if command == "test" => test(rest),
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
    let folder = stage("release", &[])?;
    // Ctrl-C goes to the whole process group: the host handles it, and its exit code is ours.
    let status = Command::new(folder.join("altgrad-host")).args(args).status()?;
    Ok(code(status))
}

fn test(args: &[String]) -> Result<u8, io::Error> {
    let folder = stage("dev", &[])?;
    let mut command = cargo();
    command.args(["test", "--workspace"]).args(args).env("ALTGRAD_STAGE", folder);
    Ok(code(command.status()?))
}

/// Builds everything and puts host and plugins side by side; says where.
fn stage(profile: &str, build_args: &[String]) -> Result<PathBuf, io::Error> {
    let mut build = cargo();
    // Named packages, so that a feature of the host may follow; tests and examples only where they are run.
    build.args(["build", "--profile", profile]);
    if profile == "dev" {
        build.arg("--workspace");
    } else {
        build.args(["-p", "altgrad-host"]);
    }
    let plugins = plugins()?;
    if profile != "dev" {
        for plugin in &plugins {
            build.args(["-p", &plugin.package]);
        }
    }
    let status = build.args(build_args).status()?;
    if !status.success() {
        return Err(io::Error::other("the build failed"));
    }
    let target = target_dir();
    let (built, staged) = match profile {
        "dev" => (target.join("debug"), target.join("altgrad-dev")),
        _ => (target.join("release"), target.join("altgrad")),
    };
    fs::create_dir_all(staged.join("plugins"))?;
    copy(&built.join("altgrad-host"), &staged.join("altgrad-host"))?;
    for plugin in &plugins {
        let library = format!("lib{}.so", plugin.package.replace('-', "_"));
        copy(&built.join(library), &staged.join("plugins").join(format!("{}.so", plugin.name)))?;
    }
    Ok(staged)
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

fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
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
