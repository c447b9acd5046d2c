//! One run as its folder describes it: finished, in progress, or with its CSV only.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_config::FullEvalChoice;
use altgrad_metrics::{Statistic, families::speed::TOKENS_PER_S};
use altgrad_run_folder::{events::EVENTS, folder::STATUS};

use super::{
    causes::{self, CauseSearch, RECORD},
    computed::without_effect,
    curves::Curves,
    events::{self, RecordedEvent},
    histograms::{self, Histograms},
    layers::{self, Layers},
    run_file::RunFile,
    series::Series,
    status::{Status, UsedPlugin},
    text::shortened,
};
/// Seconds without a sign of life after which a run that calls itself running is doubted.
const SILENT_S: u64 = 900;

/// Characters of the longest name that is shown whole.
const LONGEST_NAME: usize = 120;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Done.
    Completed,
    /// Still going, as far as can be seen.
    Running,
    /// Status is "running", but there is no recent progress.
    Silent,
    /// The user stopped it.
    Interrupted,
    /// It ended with an error.
    Failed,
    /// It ended with NaN or infinity.
    NotFinite,
    /// Unknown: CSV alone.
    Unknown,
}

impl RunState {
    /// True if its process ended by itself.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Interrupted | Self::Failed | Self::NotFinite)
    }

    /// In a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Running => "running",
            Self::Silent => "running, but silent",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::NotFinite => "not finite",
            Self::Unknown => "unknown (no readable run.json)",
        }
    }
}

/// A held-out loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossAtStep {
    /// Updates before it.
    pub step: u64,
    /// Nats per token.
    pub loss: f64,
    /// True if it is of the whole validation split, and not of a sample: losses of the two kinds are not compared.
    pub is_full: bool,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its own name, else its folder's.
    pub name: String,
    /// Its folder, or its file.
    pub path: PathBuf,
    /// Its label in the sweep's matrix file, if the sweep has labels.
    pub label: Option<String>,
    /// Its status.
    pub state: RunState,
    /// The run file; empty if there is none.
    pub config: RunFile,
    /// The contents of `run.json`; empty if there is none.
    pub status: Status,
    /// Steps done, from `run.json` or the last row.
    pub steps: Option<u64>,
    /// Curves by metric.
    pub curves: BTreeMap<Statistic, Series>,
    /// Held-out losses by step, the final one included.
    pub evaluations: Vec<LossAtStep>,
    /// True if the newest held-out loss is not finite; it is not among the evaluations.
    pub ends_not_finite: bool,
    /// Curves by statistic and layer.
    pub layers: Layers,
    /// Distributions.
    pub histograms: Histograms,
    /// The events.
    pub events: Vec<RecordedEvent>,
    /// The causes of its loss increase, if they were searched.
    pub causes: Option<CauseSearch>,
    /// Remarks about its files, a sentence each.
    pub notes: Vec<String>,
}

/// Remarks about a run's files.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    /// The contents of a file; empty if it cannot be read.
    fn take<T: Default>(&mut self, file: &str, read: Result<(T, u64), String>) -> T {
        match read {
            Ok((found, 0)) => found,
            Ok((found, damaged)) => {
                self.0.push(format!("{damaged} damaged lines of `{file}` are left out"));
                found
            }
            Err(error) => {
                self.0.push(format!("`{file}` is left out: {error}"));
                T::default()
            }
        }
    }
}

impl Run {
    /// Reads a run folder, or a `metrics.csv` alone.
    ///
    /// # Errors
    /// One sentence: the reason why the run cannot be shown.
    pub fn read(path: &Path) -> Result<Self, String> {
        // The metrics of a run folder are that run's.
        let folder = path.parent().filter(|folder| path.is_file() && folder.join(STATUS).is_file());
        let path = folder.unwrap_or(path);
        let mut notes = Notes::default();
        let alone = path.is_file();
        let config = if alone { RunFile::default() } else { notes.take("config.toml", config(path)) };
        let status = if alone { Ok(None) } else { Status::read(&path.join(STATUS)) };
        let files = config.csv_files();
        let metrics = if alone { path.to_path_buf() } else { path.join(&files.metrics) };
        let curves = Curves::read(&metrics, true);
        refuse_if_nothing_is_there(&status, &curves)?;
        let status = notes.take(STATUS, status.map(|status| (status, 0)));
        let mut curves = notes.take("metrics.csv", curves);
        let (mut layers, mut histograms, mut events, mut causes) = Default::default();
        if !alone {
            let timings = Curves::read(&path.join(&files.timings), false);
            curves.by_statistic.extend(notes.take("timings.csv", timings).by_statistic);
            layers = notes.take("layers.csv", layers::read(&path.join(&files.layers)));
            histograms = notes.take("histograms.csv", histograms::read(&path.join(&files.histograms)));
            events = notes.take(EVENTS, events::read(&path.join(EVENTS)));
            causes = notes.take(RECORD, causes::read(path));
        }
        let state = state(status.as_ref(), &metrics);
        let status = status.unwrap_or_default();
        let steps = status.steps.max(curves.last_step.map(|last| last.saturating_add(1)));
        let is_full = config.get("train.full_eval") == Some(FullEvalChoice::Always.name());
        let evaluation = |(step, loss)| LossAtStep { step, loss, is_full };
        let mut evaluations: Vec<LossAtStep> = curves.evaluations.into_iter().map(evaluation).collect();
        if let Some((step, loss)) = status.steps.zip(status.final_val_loss) {
            // The row of the final evaluation does not contain its kind.
            evaluations.retain(|evaluation| evaluation.step < step);
            evaluations.push(LossAtStep { step, loss, is_full: status.final_is_full });
        }
        let ends_not_finite = curves.ends_not_finite && status.final_val_loss.is_none();
        let curves = curves.by_statistic;
        let name = name(path, &status);
        let mut notes = notes.0;
        notes.extend(status.fault.iter().map(|fault| format!("values of `{STATUS}` are left out: {fault}")));
        notes.extend(unchecked(&status.plugins));
        notes.extend(without_effect(&config, &status.kinds));
        let path = path.to_path_buf();
        Ok(Self {
            name,
            path,
            label: None,
            state,
            config,
            status,
            steps,
            curves,
            evaluations,
            ends_not_finite,
            layers,
            histograms,
            events,
            causes,
            notes,
        })
    }

    /// A curve.
    #[must_use]
    pub fn curve(&self, statistic: impl Into<Statistic>) -> Option<&Series> {
        self.curves.get(&statistic.into())
    }

    /// The mean of a metric over the run.
    #[must_use]
    pub fn mean(&self, statistic: impl Into<Statistic>) -> Option<f64> {
        self.curve(statistic)?.mean()
    }

    /// True if its result cannot be compared: it failed, or its last loss is not finite.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let no_number = self.state == RunState::Completed && self.status.final_val_loss.is_none();
        let is_failed = matches!(self.state, RunState::Failed | RunState::NotFinite);
        is_failed || no_number || self.ends_not_finite || self.evaluations.is_empty()
    }

    /// The last held-out loss and its step; none of a failed run, whose last good one would flatter it.
    #[must_use]
    pub fn final_loss(&self) -> Option<LossAtStep> {
        self.evaluations.last().copied().filter(|_| !self.is_lost())
    }

    /// The evaluations of one kind, that of the first: samples, except for runs that evaluate the whole split
    /// only.
    pub fn curve_of_evaluations(&self) -> impl Iterator<Item = (u64, f64)> {
        let kind = self.evaluations.first().map(|first| first.is_full);
        let alike = self.evaluations.iter().filter(move |evaluation| Some(evaluation.is_full) == kind);
        alike.map(|evaluation| (evaluation.step, evaluation.loss))
    }

    /// The progress of the run: the step of its final loss, if it has one, and whether it was completed.
    #[must_use]
    pub fn reached(&self) -> (Option<u64>, bool) {
        (self.final_loss().map(|last| last.step), self.state == RunState::Completed)
    }

    /// The lowest held-out loss of evaluations of one kind and its step.
    #[must_use]
    pub fn best_loss(&self) -> Option<(u64, f64)> {
        self.curve_of_evaluations().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Training tokens per second, over the run.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        self.status.tokens_per_s.or_else(|| self.mean(&TOKENS_PER_S))
    }

    /// The run's seed.
    #[must_use]
    pub fn seed(&self) -> Option<&str> {
        self.config.get("run.seed")
    }
}

fn config(folder: &Path) -> Result<(RunFile, u64), String> {
    RunFile::read(&folder.join("config.toml")).map(|config| (config, 0))
}

pub(super) fn name(path: &Path, status: &Status) -> String {
    let own = status.name.clone().filter(|name| !name.is_empty());
    // A file's name is uninformative: it is the same in every folder.
    let named = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let of_path =
        || named.file_name().map_or(path.display().to_string(), |name| name.to_string_lossy().into());
    shortened(&own.unwrap_or_else(of_path), LONGEST_NAME)
}

/// The plugins that a run used without checks.
fn unchecked(plugins: &[UsedPlugin]) -> Option<String> {
    let unchecked = plugins.iter().filter(|plugin| plugin.checked == Some(false));
    let names: Vec<&str> = unchecked.map(|plugin| plugin.provides.as_str()).collect();
    (!names.is_empty()).then(|| format!("it used plugins without checking them: {}", names.join(", ")))
}

/// A folder with neither a status nor rows is not a run.
fn refuse_if_nothing_is_there(
    status: &Result<Option<Status>, String>,
    curves: &Result<(Curves, u64), String>,
) -> Result<(), String> {
    let of_metrics = match curves {
        _ if matches!(status, Ok(Some(_))) => return Ok(()),
        Ok((curves, _)) if curves.rows > 0 => return Ok(()),
        Ok(_) => "there is no row of metrics".to_string(),
        Err(error) => format!("its metrics cannot be read: {error}"),
    };
    Err(match status {
        Err(error) => format!("`{STATUS}`: {error}; {of_metrics}"),
        Ok(_) => of_metrics,
    })
}

/// The status of a run: its own, unless it is "running" and has written nothing for a while.
pub(super) fn state(status: Option<&Status>, metrics: &Path) -> RunState {
    let Some(status) = status else { return RunState::Unknown };
    match status.status.as_deref() {
        Some("completed") => RunState::Completed,
        Some("interrupted") => RunState::Interrupted,
        Some("failed") => RunState::Failed,
        Some("not_finite") => RunState::NotFinite,
        Some("running") if silent_s(status, metrics).is_some_and(|silent| silent > SILENT_S) => {
            RunState::Silent
        }
        Some("running") => RunState::Running,
        _ => RunState::Unknown,
    }
}

/// Seconds since the run last wrote its status or its metrics.
fn silent_s(status: &Status, metrics: &Path) -> Option<u64> {
    let now = altgrad_run_folder::events::unix_s()?;
    let written = fs::metadata(metrics).and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let last = status.updated_unix_s.max(written.map(|since| since.as_secs()))?;
    Some(now.saturating_sub(last))
}
