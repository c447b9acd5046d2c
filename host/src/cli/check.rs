//! `plugins check`: whether a library does what plugins must, as its users would find out otherwise.
//!
//! Nothing of the library runs in this process. Loading it, with every refusal, and each check of each of its formats,
//! in each variant, and of each of its optimizers are children of their own ([`child`]), so that what crashes, hangs, exits or prints is caught and
//! named. The checks are those of `altgrad-conformance`; sinks are only loaded, and said to be unchecked.

mod child;
mod report;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use altgrad_conformance::{checks, optimizer_checks};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, Fault};

pub(super) use child::{OneArgs, run as run_one};

/// `altgrad-host plugins check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The library.
    path: PathBuf,
    /// Writes one JSON object instead of lines.
    #[arg(long)]
    json: bool,
    /// Seconds a check may take before it counts as hanging.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
    /// Runs only checks whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// What a child found, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "why")]
enum Verdict {
    Ok,
    Skipped(String),
    Failed(String),
}

/// What a library holds, as the child that loads it says.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    /// Absolute path.
    library: String,
    sha256: String,
    /// Names of its formats, variants included.
    formats: Vec<String>,
    /// Its optimizers, `optimizer NAME`.
    optimizers: Vec<String>,
    /// Plugins the suite does not cover: kind and name.
    others: Vec<String>,
}

impl Contents {
    /// Plugin, name and sense of each check, in order.
    fn checks(&self) -> Vec<(&str, &'static str, &'static str)> {
        let formats = checks().iter().map(|check| (check.name, check.what));
        let optimizers = optimizer_checks().iter().map(|check| (check.name, check.what));
        let formats =
            self.formats.iter().flat_map(|plugin| formats.clone().map(move |check| (plugin, check)));
        let optimizers =
            self.optimizers.iter().flat_map(|plugin| optimizers.clone().map(move |check| (plugin, check)));
        formats.chain(optimizers).map(|(plugin, (name, what))| (plugin.as_str(), name, what)).collect()
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Line {
    /// The format as a run file names it, or `optimizer NAME`; none for the library as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<String>,
    check: &'static str,
    what: &'static str,
    #[serde(flatten)]
    verdict: Verdict,
    seconds: f64,
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, Diagnostic> {
    let timeout = Duration::from_secs(args.timeout_s);
    let mut report = report::Report::new(args.json);
    if let Some(contents) = load(&args.path, timeout, &mut report)? {
        report.opens(&contents);
        let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
        for (plugin, check, what) in contents.checks().into_iter().filter(|(_, check, _)| wanted(check)) {
            let (verdict, seconds) = child::spawn(&args.path, Some((plugin, check)), timeout)?.verdict();
            report.add(Line { plugin: Some(plugin.to_string()), check, what, verdict, seconds });
        }
    }
    let failed = report.close()?;
    Ok(if failed { ExitCode::from(Fault::Plugin.exit_code()) } else { ExitCode::SUCCESS })
}

/// Loads the library in a child; nothing if that already fails.
fn load(path: &Path, timeout: Duration, report: &mut report::Report) -> Result<Option<Contents>, Diagnostic> {
    let ended = child::spawn(path, None, timeout)?;
    let contents = ended.answer.as_ref().and_then(|answer| serde_json::from_str::<Contents>(answer).ok());
    let verdict = match ended.fault() {
        Some(fault) => Verdict::Failed(fault),
        None if contents.is_some() => Verdict::Ok,
        None => ended.refusal(),
    };
    let contents = contents.filter(|_| verdict == Verdict::Ok);
    let what = "the file is a sound library for this host, and its plugins describe themselves";
    report.add(Line { plugin: None, check: "load", what, verdict, seconds: ended.seconds });
    Ok(contents)
}
