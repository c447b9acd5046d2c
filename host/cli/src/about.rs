//! The program's version with build facts, shell completions, and manual pages.

use std::{fs, path::PathBuf, process::ExitCode, sync::LazyLock};

use altgrad_base::{diagnostic::Diagnostic, print};
use altgrad_plugin_api::BuildInfo;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
/// The build's facts, one per line: the output of `--version` after the name.
pub(super) static BUILD_FACTS: LazyLock<String> = LazyLock::new(|| {
    let build = BuildInfo::CURRENT;
    let features: Vec<&str> = [("cuda", cfg!(feature = "cuda")), ("wgpu", cfg!(feature = "wgpu"))]
        .into_iter()
        .filter(|(_, on)| *on)
        .map(|(name, _)| name)
        .collect();
    let facts = [
        // Set by the build script.
        ("commit", env!("ALTGRAD_COMMIT")),
        ("plugin-api", build.api_version.as_str()),
        ("features", if features.is_empty() { "none (CPU only)" } else { &features.join(", ") }),
        ("compiler", build.rustc.as_str()),
        ("target", build.target.as_str()),
        ("profile", if cfg!(debug_assertions) { "dev" } else { "release" }),
    ];
    let lines = facts.map(|(name, fact)| format!("\n{name:<12}{fact}"));
    format!("{}{}", env!("CARGO_PKG_VERSION"), lines.concat())
});

/// `altgrad-host completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// `altgrad-host man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Folder of the manual pages; created if it does not exist.
    dir: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Diagnostic> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "altgrad-host", &mut text);
    print::output(&text);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(args: &ManArgs) -> Result<ExitCode, Diagnostic> {
    let written =
        fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir));
    written.map_err(|error| {
        Diagnostic::run(format!("cannot write the manual pages ({error})")).at(args.dir.display())
    })?;
    Ok(ExitCode::SUCCESS)
}
