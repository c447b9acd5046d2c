//! `wandb-upload`: sends what a run's wandb sinks have left on disk.
//!
//! The host knows nothing of the protocol: it opens the sinks of the run's own `config.toml` once more, as a run that
//! continues after its last step, and ends them at once. So the same code uploads, with the same rules.

use std::{fs, path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_loader::{Registry, SinkPlugin, instance::OptionTable};
use altgrad_plugin_api::{
    RunInfo, RunOutcome,
    abi::stable::std_types::{ROption, RSlice},
};
use altgrad_run_folder::{
    folder::STATUS,
    record::{RunRecord, RunStatus},
};
use clap::Args;

use super::vetting::TrustArgs;

/// The sink this command is for.
const SINK: &str = "wandb";

/// `altgrad-host wandb-upload`.
#[derive(Debug, Args)]
pub(super) struct WandbUploadArgs {
    /// The run's folder.
    run: PathBuf,
    /// Writes the official client's offline file instead of uploading: `wandb sync` sends it.
    #[arg(long)]
    offline: bool,
    /// Seconds after which the upload gives up.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    timeout: u32,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

pub(super) fn run(args: &WandbUploadArgs) -> Result<ExitCode, Diagnostic> {
    let folder = std::path::absolute(&args.run).unwrap_or_else(|_| args.run.clone());
    let file = folder.join("config.toml");
    let (config, _) = altgrad_config::load(&file, &[])?;
    let text = fs::read_to_string(&file)
        .map_err(|error| Diagnostic::config(format!("cannot be read ({error})")).at(file.display()))?;
    let registry = Registry::open(&config.plugins)?;
    let folder_text = folder.to_string_lossy();
    let mut found = false;
    for (index, sink) in config.sink.iter().enumerate().filter(|(_, sink)| sink.name == SINK) {
        found = true;
        let mut settings = sink.settings.clone();
        let mode = if args.offline { "offline" } else { "online" };
        settings.insert("mode".into(), mode.into());
        settings.insert("finish_timeout_s".into(), i64::from(args.timeout).into());
        let key = format!("sink.{index}");
        let table = OptionTable { key: &key, values: &settings };
        let mut plugin = SinkPlugin::make(&registry, SINK, table).map_err(|(_, error)| error)?;
        plugin.open(&RunInfo {
            name: config.run.name.as_str().into(),
            folder: folder_text.as_ref().into(),
            config_toml: text.as_str().into(),
            metrics: RSlice::from_slice(&[]),
            resume_step: ROption::RSome(u64::MAX),
            state: RSlice::from_slice(&[]),
        })?;
        plugin.finish(outcome(&folder.join(STATUS)))?;
    }
    if !found {
        return Err(Diagnostic::config(format!("the run has no `{SINK}` sink")).at(file.display()));
    }
    println!(
        "{}: {}",
        folder.display(),
        if args.offline { "offline file written" } else { "all is on the server" }
    );
    Ok(ExitCode::SUCCESS)
}

/// How the run ended, by its status file; one that says nothing of an end was killed.
fn outcome(status: &std::path::Path) -> RunOutcome {
    let text = fs::read_to_string(status).unwrap_or_default();
    let record: RunRecord = serde_json::from_str(&text).unwrap_or_default();
    match record.status {
        RunStatus::Completed => RunOutcome::COMPLETED,
        RunStatus::Interrupted => RunOutcome::INTERRUPTED,
        RunStatus::Running | RunStatus::Failed => RunOutcome::FAILED,
    }
}
