//! An open run: its folder, its journal, its uploader, and its final reports.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{Alert, ErrorKind, PluginError, RunInfo, RunOutcome};

use crate::{
    alerts::Alerts,
    environment::Environment,
    index::{Begin, Index},
    journal::{Journal, now},
    json,
    key::Key,
    lock::lock,
    naming::{Anew, Kept, folder_number, identity},
    offline,
    options::{Identity, Mode, Options},
    pace::Pace,
    remote::Remote,
    say,
    shared::{Report, Shared},
    spool::{Spool, replace},
    thread::start,
};

/// An open run.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub journal: Journal,
    alerts: Alerts,
    identity: Identity,
    /// Removed from all written text, whether it is sent or not.
    known_key: Option<Key>,
    shared: Arc<Shared>,
    /// The run folder, as messages show it.
    run_folder: String,
    /// The run folder, by its inode.
    number: Option<u64>,
    folder: PathBuf,
    mode: Mode,
    finish_timeout: Duration,
    /// True if the spool had ended already, and no rows were expected.
    ended: bool,
    /// Rows that the spool had and has no longer.
    cut_off: u64,
    /// Held while the run is open: one process writes.
    _lock: Arc<File>,
}

/// The description of rows that can still be sent.
const UNSENT: &str = "on disk, not on the server";

/// The number of rows that the spool has had, at the last checkpoint or the end.
const WRITTEN: &str = "written.json";

/// Rows that a spool of `rows` rows has lost since they were counted.
fn cut_off(folder: &Path, rows: u64) -> u64 {
    let counted = fs::read(folder.join(WRITTEN)).ok();
    let counted = counted.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let counted = counted.and_then(|counted| counted.get("rows")?.as_u64());
    counted.map_or(0, |counted| counted.saturating_sub(rows))
}

/// Tells the user that the rows go to a run that the server does not have from here; `from` is the step before which
/// none are in the folder.
fn announce(anew: Anew, identity: &Identity, from: Option<u64>) {
    let Identity { run_id, base_url, .. } = identity;
    let server = base_url.as_deref().unwrap_or("the server");
    let why = match anew {
        Anew::Copy => format!(
            "the run folder is a copy: its rows go to the new run `{run_id}` (resume = \"allow\" continues the original's)"
        ),
        Anew::Server => {
            format!("the run continues on another server: its rows go to run `{run_id}` of {server}")
        }
    };
    let lacks =
        from.map(|step| format!("; it lacks the steps before {step}, which this folder does not have"));
    say(&(why + &lacks.unwrap_or_default()));
}

/// Name of the spool.
const SPOOL: &str = "spool.log";

/// Most additional time for a server that takes rows at the end. The default `deadline_s` of a sink leaves it.
const MOST_EXTRA: Duration = Duration::from_secs(5);

impl OpenRun {
    /// Opens the spool and, online, starts the uploader. Needs no network, no key and no server.
    ///
    /// With a `resume_step` of `u64::MAX` no rows are expected: only the remaining ones are uploaded. `None` if the
    /// spool is deleted, because none remained.
    ///
    /// # Errors
    /// The folder cannot be written, or another process has it open; `GAP` if rows before the checkpoint are missing.
    pub(crate) fn open(
        options: &Options,
        environment: &Environment,
        pace: Pace,
        run: &RunInfo<'_>,
    ) -> Result<Option<Self>, PluginError> {
        let run_folder = run.folder.to_string();
        let folder = Path::new(&run_folder).join(&options.folder);
        let path = folder.join(SPOOL);
        let resume_step = run.resume_step.into_option();
        let only_upload = resume_step == Some(u64::MAX);
        if only_upload && !path.exists() {
            return match (Remote::open(&folder).finished, options.mode) {
                (true, Mode::Online) => Ok(None),
                (true, _) => Err(PluginError::io(&path, "deleted, because all of the run is on the server")),
                (false, _) => Err(PluginError::io(&path, "not there: this run has nothing to upload")),
            };
        }
        fs::create_dir_all(&folder).map_err(|error| PluginError::io(&folder, error))?;
        let lock = Arc::new(lock(&folder)?);
        if resume_step.is_none() {
            for old in [path.clone(), folder.join("uploaded.json"), folder.join(WRITTEN)] {
                if old.exists() {
                    fs::remove_file(&old).map_err(|error| PluginError::io(&old, error))?;
                }
            }
        }
        let spool = Spool::open(&path).map_err(|error| PluginError::io(&path, error))?;
        let mut index = Index::open(&path).map_err(|error| PluginError::io(&path, error))?;
        index.read_to(spool.len()).map_err(|error| PluginError::io(&path, error))?;
        let kept: Option<Kept> = serde_json::from_slice(run.state.as_slice()).ok();
        let gap = kept.as_ref().zip(resume_step).and_then(|(kept, step)| kept.gap(&index, step));
        if let Some(gap) = gap {
            return Err(PluginError::new(ErrorKind::GAP, format!("`{}`: {gap}", path.display())));
        }
        let number = folder_number(Path::new(&run_folder));
        let (identity, anew) = identity(options, (only_upload, number), index.begin.as_ref(), kept.as_ref())?;
        let base_url = identity.base_url.as_ref().unwrap_or(&options.base_url);
        let key = Key::find(base_url, environment);
        let known_key = key.as_ref().ok().cloned().or_else(|| Key::of_environment(environment));
        let shared = Arc::new(Shared::default());
        let runtime_before = kept.as_ref().map_or(0.0, |kept| kept.runtime);
        let repeats = resume_step.filter(|_| !only_upload);
        let mut remote = Remote::open(&folder);
        if let Some(anew) = anew {
            remote = remote.forgotten();
            announce(
                anew,
                &identity,
                resume_step.filter(|_| index.rows.first().is_none_or(|row| row.step > 0)),
            );
        }
        let was_finished = std::mem::take(&mut remote.finished);
        let mut journal = Journal::open(&path, spool, &index, repeats, runtime_before, shared.clone())
            .map_err(|error| PluginError::io(&path, error))?;
        if !only_upload {
            let begin = Begin {
                identity: identity.clone(),
                name: run.name.to_string(),
                // A generated id is ours; a chosen one must be in the checkpoint, or have been uploaded from here.
                continues: anew.is_none()
                    && (was_finished
                        || kept.is_some_and(|kept| kept.claimed || options.identity.run_id.is_empty())),
                resume_step,
                host: fs::read_to_string("/proc/sys/kernel/hostname")
                    .ok()
                    .map(|name| name.trim().to_string()),
                folder: number,
                started: now(),
                config: toml::from_str(run.config_toml.as_str()).map(json::from_toml).unwrap_or_default(),
            };
            let text = serde_json::to_string(&begin).unwrap_or_default();
            journal.begin(&known_key.as_ref().map_or(text.clone(), |key| key.scrub(&text)));
        }
        let ended = only_upload && index.end.is_some();
        let cut_off = if only_upload { cut_off(&folder, index.rows.len() as u64) } else { 0 };
        if options.mode == Mode::Online {
            start(base_url, &identity, key.clone(), (shared.clone(), index, remote, pace), lock.clone())
                .map_err(|error| PluginError::io(&path, format!("no thread for the upload ({error})")))?;
        }
        Ok(Some(Self {
            alerts: Alerts::new(options.alert_level, options.alert_cooldown),
            mode: options.mode,
            finish_timeout: options.finish_timeout,
            journal,
            identity,
            known_key,
            shared,
            run_folder,
            number,
            folder,
            ended,
            cut_off,
            _lock: lock,
        }))
    }

    /// Takes an alert, unless its kind rests.
    pub(crate) fn alert(&mut self, alert: &Alert<'_>) {
        let Some(mut alert) = self.alerts.pass(alert) else { return };
        if let Some(key) = &self.known_key {
            alert.text = key.scrub(&alert.text);
        }
        self.journal.alert(&alert);
    }

    /// The state for checkpoints, which do not outlive the rows before them.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        self.journal.settle();
        self.journal.sync().map_err(|error| PluginError::io(&self.folder.join(SPOOL), error))?;
        self.note_rows();
        let Identity { run_id, project, entity, base_url, .. } = self.identity.clone();
        let claimed = self.shared.lock().report.claimed;
        let (runtime, rows) = (self.journal.runtime(), Some(self.journal.logged()));
        let kept = Kept { run_id, project, entity, base_url, claimed, runtime, rows, folder: self.number };
        Ok(serde_json::to_vec(&kept).unwrap_or_default())
    }

    /// Writes down how many rows the spool has, so that a spool that is cut later is found out. Without it that is not.
    fn note_rows(&self) {
        let rows = self.journal.rows();
        let _ = replace(&self.folder.join(WRITTEN), |out| writeln!(out, "{{\"rows\":{rows}}}"));
    }

    /// Ends the run: waits for the upload, up to the limit, or writes the offline file.
    ///
    /// # Errors
    /// Rows that are lost or not sent; the hint explains how to send them.
    pub(crate) fn finish(&mut self, outcome: RunOutcome) -> Result<(), PluginError> {
        if !self.ended {
            self.journal.end(match outcome {
                RunOutcome::COMPLETED => 0,
                // The official client reports 255 for Ctrl-C.
                RunOutcome::INTERRUPTED => 255,
                _ => 1,
            });
        }
        // The count of a spool that was cut stays: the next upload is to find it out too.
        if !self.ended && self.cut_off == 0 {
            self.note_rows();
        }
        let mut faults: Vec<String> = self.journal.loss.describe().into_iter().collect();
        if self.cut_off > 0 {
            faults.push(format!("the spool has lost {} rows that were written to it", self.cut_off));
        }
        let command = format!("altgrad-host wandb-upload {}", self.run_folder);
        let left = match self.mode {
            Mode::Online => self.end_upload(),
            _ => match self.export(&command) {
                Ok(0) => None,
                Ok(damaged) => Some(format!("{damaged} damaged lines of the spool are lost")),
                Err(error) => Some(format!("the offline file cannot be written ({error})")),
            },
        };
        let is_unsent = left.as_ref().is_some_and(|left| left.contains(UNSENT));
        let hint = if is_unsent { format!("send what is left with `{command}`") } else { String::new() };
        faults.extend(left);
        if faults.is_empty() {
            if self.mode == Mode::Online && outcome == RunOutcome::COMPLETED {
                self.delete_spool();
            }
            return Ok(());
        }
        Err(PluginError::new(ErrorKind::IO, faults.join("; ")).with_hint(hint))
    }

    /// Deletes the spool of a run that the server has whole. What cannot be deleted stays.
    fn delete_spool(&self) {
        if Remote::finish(&self.folder).is_ok() {
            let _ = fs::remove_file(self.folder.join(WRITTEN));
            let _ = fs::remove_file(self.folder.join(SPOOL));
        }
    }

    /// Waits for the uploader; returns a description of the remaining work, if there is any. A server that takes rows
    /// when the time is over gets a little more.
    fn end_upload(&self) -> Option<String> {
        for time in [self.finish_timeout, (self.finish_timeout / 4).min(MOST_EXTRA)] {
            self.shared.tell(|state| state.finish_by = Some(Instant::now() + time));
            self.shared.wait(time, |state| state.done);
            let state = self.shared.lock();
            if state.done || state.report.trouble.is_some() {
                break;
            }
        }
        let report = {
            let mut state = self.shared.lock();
            state.stop = true;
            state.report.clone()
        };
        self.shared.tell(|_| {});
        let mut faults = Vec::new();
        if !report.complete {
            let rows = self.read().map_or(0, |index| index.rows.len() as u64);
            let left = rows.saturating_sub(report.acknowledged);
            let Report { refused, trouble, .. } = report.clone();
            let why = refused.or(trouble).unwrap_or_else(|| "the time was over".into());
            faults.push(format!("{left} of {rows} rows and the run's end are {UNSENT}: {why}"));
        }
        if report.damaged > 0 {
            faults.push(format!("{} damaged lines of the spool are lost", report.damaged));
        }
        if report.dropped > 0 {
            faults.push(format!("{} rows of repeated steps are not on the server", report.dropped));
        }
        if report.alerts_refused > 0 {
            faults.push(format!("{} alerts were refused", report.alerts_refused));
        }
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// The spool, read again.
    fn read(&self) -> std::io::Result<Index> {
        let mut index = Index::open(&self.folder.join(SPOOL))?;
        index.read_to(self.shared.lock().committed)?;
        Ok(index)
    }

    /// Writes the offline file and prints how to send it. Returns the number of damaged lines of the spool.
    fn export(&self, command: &str) -> std::io::Result<u64> {
        let index = self.read()?;
        let folder = offline::export(&index, &self.folder)?;
        say(&format!("offline run: send it with `{command}` or `wandb sync {}`", folder.display()));
        Ok(index.damaged)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        self.shared.tell(|state| state.stop = true);
    }
}
