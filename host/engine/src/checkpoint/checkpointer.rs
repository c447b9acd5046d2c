//! The checkpoints of a run: the schedule, writing on another thread, and the result.
//!
//! At most one checkpoint is written at a time, and training waits for it before the next one is taken: none is
//! skipped. Training also waits before an update that would be more than `every` updates ahead of the newest complete
//! checkpoint. If a checkpoint cannot be written, training continues: the failure is reported, and the next checkpoint
//! is written when it is due.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use altgrad_base::{diagnostic::Diagnostic, files::Disk};
use altgrad_config::CheckpointSection;
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;
use altgrad_sinks::StateRequest;

use super::{
    identity::RunIdentity,
    layout::{self, BEST, CHECKPOINTS, CheckpointKind, LAST},
    retention,
    snapshot::Snapshot,
    write,
};

/// Number of anomalies that a run keeps: the first ones are the most informative.
const MOST_ANOMALIES: usize = 3;

/// The kind of the event of a complete checkpoint.
pub(super) const WRITTEN: &str = "checkpoint";

/// The checkpoints of a run.
#[derive(Debug)]
pub struct Checkpointer {
    archive: Archive,
    section: CheckpointSection,
    writing: Option<Writing>,
    /// Whole periods of `section.every` that have a checkpoint.
    periods: u64,
    /// The newest complete regular checkpoint: its step and folder.
    last: Option<(u64, PathBuf)>,
    anomalies: usize,
    /// The newest complete anomaly.
    anomaly: Option<PathBuf>,
    /// The reason why the newest requested one is missing.
    fault: Option<Diagnostic>,
}

/// The folder of checkpoints and their common content: the writing thread's copy.
#[derive(Debug, Clone)]
struct Archive {
    folder: PathBuf,
    disk: Disk,
    identity: Arc<RunIdentity>,
    keep_last: usize,
    keep_best: bool,
    /// Validation loss of the best.
    best: Option<f64>,
}

#[derive(Debug)]
struct Writing {
    kind: CheckpointKind,
    step: u64,
    thread: JoinHandle<Result<Written, Diagnostic>>,
}

/// A complete checkpoint.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    best: Option<f64>,
    /// Faults besides that of the checkpoint itself.
    remarks: Vec<String>,
}

impl Checkpointer {
    /// The checkpoints of a run in that folder. `from` is the checkpoint from which the run resumes: its step and
    /// folder.
    #[must_use]
    pub fn new(
        run_folder: &Path,
        section: CheckpointSection,
        identity: RunIdentity,
        disk: Disk,
        from: Option<(u64, PathBuf)>,
    ) -> Self {
        let folder = run_folder.join(CHECKPOINTS);
        let best = retention::target(&folder, BEST).and_then(|path| super::read::val_loss(&path));
        // If listing fails, assume none exist: extra checkpoints are kept.
        let anomalies = layout::list(&folder, CheckpointKind::Anomaly).unwrap_or_default().len();
        let step = from.as_ref().map_or(0, |(step, _)| *step);
        let archive = Archive {
            folder,
            disk,
            identity: Arc::new(identity),
            keep_last: section.keep_last,
            keep_best: section.keep_best,
            best,
        };
        Self {
            archive,
            periods: step.checked_div(section.every).unwrap_or(0),
            section,
            writing: None,
            last: from,
            anomalies,
            anomaly: None,
            fault: None,
        }
    }

    /// Continues in the renamed run folder. Returns the result of the checkpoint that was being written.
    pub fn move_to(&mut self, run_folder: &Path) -> Vec<Event> {
        let events = self.wait();
        let folder = run_folder.join(CHECKPOINTS);
        let moved = |path: &mut PathBuf| {
            if let Ok(name) = path.strip_prefix(&self.archive.folder) {
                *path = folder.join(name);
            }
        };
        self.last.iter_mut().for_each(|(_, path)| moved(path));
        self.anomaly.iter_mut().for_each(moved);
        self.archive.folder = folder;
        events
    }

    /// True if a regular checkpoint is due after `step` updates, at the end of a period.
    #[must_use]
    pub fn is_due(&self, step: u64) -> bool {
        step.checked_div(self.section.every).is_some_and(|periods| periods > self.periods)
    }

    /// Skips the checkpoint of the period that ends at `step`.
    pub fn skip(&mut self, step: u64) {
        self.periods = step.checked_div(self.section.every).unwrap_or(0);
    }

    /// True if a checkpoint after `step` updates, whose parameters have this validation loss, would add to the complete
    /// ones: the newest is of another step, or was written before these parameters were found to be the best.
    #[must_use]
    pub fn lacks(&self, step: u64, val_loss: Option<f64>) -> bool {
        self.last().is_none_or(|(last, _)| last != step) || self.archive.improves(val_loss)
    }

    /// True if the checkpoint with the best parameters is kept.
    #[must_use]
    pub fn keeps_best(&self) -> bool {
        self.section.keep_best
    }

    /// True if another anomaly can be kept.
    #[must_use]
    pub fn keeps_anomaly(&self) -> bool {
        self.section.on_anomaly && self.anomalies < MOST_ANOMALIES
    }

    /// Starts to write a checkpoint after the previous one is complete. Returns the result of the previous one.
    pub fn save(&mut self, snapshot: Snapshot, sinks: StateRequest) -> Vec<Event> {
        let mut events = self.wait();
        let (kind, step) = (snapshot.kind, snapshot.step);
        match kind {
            CheckpointKind::Step => self.skip(step),
            CheckpointKind::Anomaly => self.anomalies += 1,
        }
        let archive = self.archive.clone();
        let spawned =
            thread::Builder::new().name("checkpoint".into()).spawn(move || archive.put(snapshot, sinks));
        match spawned {
            Ok(thread) => self.writing = Some(Writing { kind, step, thread }),
            Err(error) => {
                let fault =
                    Diagnostic::run(format!("cannot start the thread that writes checkpoints ({error})"));
                events.push(self.failed(step, fault));
            }
        }
        events
    }

    /// The result of the pending checkpoint, if it is complete.
    pub fn poll(&mut self) -> Vec<Event> {
        if self.writing.as_ref().is_some_and(|writing| writing.thread.is_finished()) {
            return self.wait();
        }
        Vec::new()
    }

    /// Waits for the pending checkpoint if a crash after update number `updates` would otherwise lose more than `every`
    /// updates. Returns its result.
    pub fn bound_loss(&mut self, updates: u64) -> Vec<Event> {
        let complete = self.last().map_or(0, |(step, _)| step);
        if self.section.every > 0 && updates.saturating_sub(complete) > self.section.every {
            return self.wait();
        }
        Vec::new()
    }

    /// Waits for the pending checkpoint, and returns its result.
    pub fn wait(&mut self) -> Vec<Event> {
        let Some(Writing { kind, step, thread }) = self.writing.take() else { return Vec::new() };
        let result = thread.join().unwrap_or_else(|_| {
            Err(Diagnostic::run("the thread that writes checkpoints panicked; please report it"))
        });
        vec![match result {
            Ok(written) => self.written(kind, step, written),
            Err(fault) => self.failed(step, fault),
        }]
    }

    fn written(&mut self, kind: CheckpointKind, step: u64, written: Written) -> Event {
        let Written { path, best, remarks } = written;
        self.fault = None;
        self.archive.best = best;
        let name = format!("{CHECKPOINTS}/{}", layout::name(kind, step));
        match kind {
            CheckpointKind::Step => self.last = Some((step, path)),
            CheckpointKind::Anomaly => self.anomaly = Some(path),
        }
        let level = if remarks.is_empty() { AlertLevel::INFO } else { AlertLevel::WARN };
        let text = [vec![format!("written: {name}")], remarks].concat().join("; ");
        Event { place: Some(name), ..Event::new(step, level, WRITTEN, text) }
    }

    fn failed(&mut self, step: u64, fault: Diagnostic) -> Event {
        let event = Event::new(step, AlertLevel::ERROR, "checkpoint_failed", &fault.message);
        let event = Event { place: fault.place.clone(), ..event };
        self.fault = Some(fault);
        event
    }

    /// The newest complete regular checkpoint: updates done, and its folder.
    #[must_use]
    pub fn last(&self) -> Option<(u64, &Path)> {
        self.last.as_ref().map(|(step, path)| (*step, path.as_path()))
    }

    /// True if `--resume auto` would choose this checkpoint: the newest regular one of the run's own folder.
    #[must_use]
    pub fn is_own_newest(&self, path: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let newest = layout::list(&self.archive.folder, CheckpointKind::Step).unwrap_or_default().pop();
        newest.and_then(|(_, newest)| real(&newest)).is_some_and(|newest| real(path) == Some(newest))
    }

    /// The newest anomaly that this process kept.
    #[must_use]
    pub fn anomaly(&self) -> Option<&Path> {
        self.anomaly.as_deref()
    }

    /// The reason why the newest requested checkpoint is missing; `None` if it is complete.
    #[must_use]
    pub fn fault(&self) -> Option<&Diagnostic> {
        self.fault.as_ref()
    }
}

impl Archive {
    /// True if parameters with this validation loss are the best so far, and the best are kept.
    fn improves(&self, val_loss: Option<f64>) -> bool {
        let better = |loss: f64| !loss.is_nan() && self.best.is_none_or(|best| loss < best);
        self.keep_best && val_loss.is_some_and(better)
    }

    /// Writes a checkpoint, updates links and removes old ones.
    fn put(self, snapshot: Snapshot, sinks: StateRequest) -> Result<Written, Diagnostic> {
        let (kind, val_loss) = (snapshot.kind, snapshot.val_loss);
        let better = val_loss.filter(|_| self.improves(val_loss));
        let Self { folder, disk, identity, keep_last, mut best, .. } = self;
        let write::Complete { path, missing } = write::write(&disk, &folder, snapshot, &identity, sinks)?;
        let mut remarks: Vec<String> =
            missing.iter().map(|missing| format!("without the state of sink {missing}")).collect();
        if kind == CheckpointKind::Step {
            let mut check = |what: &str, result: std::io::Result<()>| {
                let failed = result.is_err();
                remarks.extend(result.err().map(|error| format!("{what} ({error})")));
                !failed
            };
            check("`last` still leads to an older one", retention::point(&disk, &folder, LAST, &path));
            if let Some(loss) = better
                && check("`best` still leads to an older one", retention::point(&disk, &folder, BEST, &path))
            {
                best = Some(loss);
            }
            check("an old one cannot be removed", retention::rotate(&disk, &folder, keep_last));
        }
        Ok(Written { path, best, remarks })
    }
}
