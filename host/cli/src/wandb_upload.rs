//! `wandb-upload`: sends the rows that the wandb sinks of runs have left on disk.
//!
//! The host does not implement the protocol: it opens the sinks of a run's own `config.toml` once more, as a run
//! that continues after its last step, and ends them at once. So the same code uploads, with the same rules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, println,
};
use altgrad_loader::{Registry, SinkPlugin, instance::OptionTable};
use altgrad_plugin_api::{
    RunInfo, RunOutcome,
    abi::stable::std_types::{ROption, RSlice},
};
use altgrad_run_folder::{
    folder::{CONFIG, STATUS},
    record::{RunRecord, RunStatus},
};
use clap::Args;
use serde_json::Value;

use super::vetting::TrustArgs;

/// The sink this command is for.
const SINK: &str = "wandb";
/// Folders of folders that are searched for runs.
const DEPTH: usize = 4;

/// `altgrad-host wandb-upload`.
#[derive(Debug, Args)]
pub(super) struct WandbUploadArgs {
    /// Run folders, and folders of runs such as a sweep's.
    #[arg(required = true, value_name = "RUN|FOLDER")]
    runs: Vec<PathBuf>,
    /// Writes the official client's offline file instead of uploading: `wandb sync` sends it.
    #[arg(long)]
    offline: bool,
    /// Time limit for the upload of one run, in seconds.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    timeout: u32,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
}

/// The result of uploading a run.
enum Sent {
    /// It has no sink of this kind.
    NoSink,
    /// Everything is where it belongs.
    All,
}

pub(super) fn run(args: &WandbUploadArgs) -> Result<ExitCode, Diagnostic> {
    let mut folders = Vec::new();
    for named in &args.runs {
        let named = std::path::absolute(named).unwrap_or_else(|_| named.clone());
        let before = folders.len();
        find(&named, DEPTH, &mut folders);
        if folders.len() == before {
            return Err(Diagnostic::config(format!("there is no run: no {CONFIG} in it")).at(named.display()));
        }
    }
    if let [folder] = &folders[..] {
        return match upload(args, folder)? {
            Sent::All => Ok(ExitCode::SUCCESS),
            Sent::NoSink => {
                Err(Diagnostic::config(format!("the run has no `{SINK}` sink"))
                    .at(folder.join(CONFIG).display()))
            }
        };
    }
    let mut faults = 0;
    for folder in &folders {
        if let Err(fault) = upload(args, folder) {
            eprintln!("{}: {fault}", folder.display());
            faults += 1;
        }
    }
    if faults == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{faults} of {} runs are not uploaded completely", folders.len());
    Ok(ExitCode::from(Fault::Run.exit_code()))
}

/// The run folders at or below a folder, by path. Links are not followed.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.join(CONFIG).is_file() {
        found.push(folder.to_path_buf());
        return;
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut below: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    below.sort();
    below.iter().for_each(|folder| find(folder, depth, found));
}

/// Uploads the remaining rows of a run.
fn upload(args: &WandbUploadArgs, folder: &Path) -> Result<Sent, Diagnostic> {
    let file = folder.join(CONFIG);
    let (config, _) = altgrad_config::load(&file, &[])?;
    let text = fs::read_to_string(&file)
        .map_err(|error| Diagnostic::config(format!("cannot be read ({error})")).at(file.display()))?;
    let outcome = outcome(folder)?;
    let registry = Registry::open(&config.plugins)?;
    let folder_text = folder.to_string_lossy();
    let mut sent = Sent::NoSink;
    for (index, sink) in config.sink.iter().enumerate().filter(|(_, sink)| sink.name == SINK) {
        sent = Sent::All;
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
        plugin.finish(outcome)?;
    }
    if matches!(sent, Sent::All) {
        if !args.offline {
            clear_faults(&folder.join(STATUS))?;
        }
        let done = if args.offline { "offline file written" } else { "all rows are on the server" };
        println!("{}: {done}", folder.display());
    }
    Ok(sent)
}

/// The outcome in the run's status file; a run without an end in that file was killed.
///
/// # Errors
/// The file is damaged.
fn outcome(folder: &Path) -> Result<RunOutcome, Diagnostic> {
    let record = RunRecord::read(folder)
        .map_err(|damage| damage.hint("without this file the run is uploaded as a failed one"))?;
    Ok(match record.map(|record| record.status) {
        Some(RunStatus::Completed) => RunOutcome::COMPLETED,
        Some(RunStatus::Interrupted) => RunOutcome::INTERRUPTED,
        None | Some(RunStatus::Running | RunStatus::Failed | RunStatus::NotFinite) => RunOutcome::FAILED,
    })
}

/// Removes the faults of uploads from a run's status: the rows they report are sent.
fn clear_faults(status: &Path) -> Result<(), Diagnostic> {
    let Ok(text) = fs::read_to_string(status) else { return Ok(()) };
    let Ok(mut record) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
    let Some(faults) = record.get_mut("faults").and_then(Value::as_array_mut) else { return Ok(()) };
    let before = faults.len();
    faults.retain(|fault| !fault.as_str().is_some_and(is_of_an_upload));
    if faults.len() == before {
        return Ok(());
    }
    altgrad_base::files::write(status, format!("{record:#}\n").as_bytes())
        .map_err(|error| Diagnostic::run(format!("cannot be written ({error})")).at(status.display()))
}

/// True if the fault is only that rows are on disk and not on the server, or that the sink missed its deadline at the
/// end of the run. The text after the former is the reason, and may be a server's.
fn is_of_an_upload(fault: &str) -> bool {
    let unsent = fault.split_once("on disk, not on the server");
    let is_unsent = unsent.is_some_and(|(before, _)| !before.contains(" lost: "));
    (fault.starts_with(&format!("sink plugin `{SINK}")) && is_unsent)
        || (fault.starts_with(&format!("sink `{SINK}")) && fault.contains(" did not finish within "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_uploads_are_cleared_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join(STATUS);
        let left = "sink plugin `wandb`: 6 of 6 rows and the run's end are on disk, not on the server: the connection was lost: timeout";
        let late = "sink `wandb (sink.1)` did not finish within 30s";
        let lost = "sink plugin `wandb`: 2 rows lost: the disk is full; 6 of 6 rows and the run's end are on disk, not on the server";
        let (other, slow) = ("sink plugin `csv`: the disk is full", "sink `csv` did not finish within 30s");
        let missing = "sink `wandb` is missing 3 rows";
        let faults = [left, other, late, lost, slow, missing];
        fs::write(&status, serde_json::json!({ "name": "a", "faults": faults }).to_string()).unwrap();
        clear_faults(&status).unwrap();
        let record: Value = serde_json::from_str(&fs::read_to_string(&status).unwrap()).unwrap();
        assert_eq!(record, serde_json::json!({ "name": "a", "faults": [other, lost, slow, missing] }));
    }

    #[test]
    fn a_run_without_an_end_failed_and_a_damaged_status_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = || outcome(folder.path());
        assert_eq!(outcome(), Ok(RunOutcome::FAILED));
        for (text, expected) in [
            ("{\"status\": \"running\"}", Some(RunOutcome::FAILED)),
            ("{\"status\": \"completed\"}", Some(RunOutcome::COMPLETED)),
            ("{\"status\": \"comple", None),
        ] {
            fs::write(folder.path().join(STATUS), text).unwrap();
            assert_eq!(outcome().ok(), expected, "{text}");
        }
    }

    #[test]
    fn runs_are_found_in_folders_of_folders() {
        let folder = tempfile::tempdir().unwrap();
        for run in ["b/two", "a", "b/one/checkpoints"] {
            fs::create_dir_all(folder.path().join(run)).unwrap();
        }
        for run in ["b/two", "a", "b/one", "b/one/checkpoints"] {
            fs::write(folder.path().join(run).join(CONFIG), "").unwrap();
        }
        let mut found = Vec::new();
        find(folder.path(), DEPTH, &mut found);
        assert_eq!(found, ["a", "b/one", "b/two"].map(|run| folder.path().join(run)));
    }
}
