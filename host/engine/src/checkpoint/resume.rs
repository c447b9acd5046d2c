//! Resume from a checkpoint: its choice, its comparison with the run, and the restored state.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use altgrad_alerts::AlertState;
use altgrad_base::{diagnostic::Diagnostic, files::Disk};
use altgrad_config::{RunConfig, ScheduleChoice, Source};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::{
    events::{self, EVENTS, Event, unix_s},
    folder::RunFolder,
    record::{Difference, Resume, RunRecord, RunStatus},
};
use altgrad_sinks::{ResumedSink, SinkResume};

use super::{
    checkpointer::WRITTEN,
    identity::RunIdentity,
    layout::{self, BEST, CHECKPOINTS, CheckpointKind, LAST, METER, MODEL, OPTIMIZER, STATE, STEP},
    read::{self, Checkpoint, Damage},
    retention, sanity,
    snapshot::{shared_state_key, state_key},
    state::{RunTotals, SinkRecord},
};
use crate::{
    metrics::update_metrics::UpdateMetrics,
    model::weights,
    setup::{ReadyRun, RunSetup},
    state::TrainState,
    tensor,
    tensor_file::OTHER_RUN,
};

/// The value of `--resume` for the newest valid checkpoint of the run folder.
pub const AUTO: &str = "auto";
/// The hint about a folder whose run cannot resume.
const ANEW: &str = "use `--out DIR` for a run from the beginning, or delete this folder";
/// Bytes of a tensor file besides its elements: for its header, and for each tensor in it.
const HEADER: (u64, u64) = (1 << 16, 1 << 10);

/// The point at which a run resumes.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The run folder, if it holds an earlier part of this run.
    folder: Option<RunFolder>,
    /// The checkpoint; none if the run starts from the beginning.
    checkpoint: Option<Checkpoint>,
    /// Newer checkpoints that cannot be used.
    passed_over: Vec<Damage>,
}

/// The point at which a run starts, and its state there.
#[derive(Debug, Default)]
pub struct Start {
    /// Updates done.
    pub step: u64,
    /// The run folder, if it holds an earlier part of this run.
    pub folder: Option<RunFolder>,
    /// The identity of the run, if it was already computed.
    pub identity: Option<RunIdentity>,
    /// The checkpoint from which it resumes.
    pub from: Option<PathBuf>,
    /// Sums over the completed steps.
    pub totals: RunTotals,
    /// The state of alerts.
    pub alerts: AlertState,
    /// The information for sinks.
    pub sinks: Option<SinkResume>,
    /// This and earlier continuations.
    pub resumes: Vec<Resume>,
    /// Remarks about this resume.
    pub remarks: Vec<String>,
}

impl Chosen {
    /// Finds the checkpoint that `--resume` selects: that at a path, the last of a run folder, or [`AUTO`].
    ///
    /// # Errors
    /// The path is not a valid checkpoint, all checkpoints of the folder are damaged or lost, the folder cannot be
    /// read, or it is not this run's.
    pub fn find(asked: &str, run_folder: &Path) -> Result<Self, Diagnostic> {
        let free = RunFolder::check(run_folder);
        let folder = match &free {
            Err(occupied) if !RunFolder::holds_a_run(run_folder) => return Err(occupied.clone()),
            Err(_) => Some(RunFolder::reopen(run_folder)?),
            Ok(()) => None,
        };
        let checkpoints = folder.as_ref().map_or(run_folder, RunFolder::path).join(CHECKPOINTS);
        let unreadable = |error: io::Error| {
            Diagnostic::config(format!("the checkpoints of the run cannot be read ({error})"))
                .at(checkpoints.display())
                .hint("restore the folder, or use `--out DIR` for a run from the beginning")
        };
        if folder.is_some() {
            retention::restore(&Disk::default(), &checkpoints).map_err(unreadable)?;
        }
        if asked != AUTO {
            let last = Path::new(asked).join(CHECKPOINTS).join(LAST);
            let asked = if last.exists() { last } else { PathBuf::from(asked) };
            // A link such as `last` will change.
            let path = fs::canonicalize(&asked).unwrap_or(asked);
            let checkpoint = Checkpoint::open(&path)?;
            if folder.is_some() && !lies_in(&checkpoint.path, &checkpoints) {
                let message = "the checkpoint is of another run folder, and this run's is not empty";
                return Err(Diagnostic::config(message)
                    .at(run_folder.display())
                    .hint("use `--out DIR` to resume from it in a new folder"));
            }
            return Ok(Self { folder, checkpoint: Some(checkpoint), passed_over: Vec::new() });
        }
        let mut passed_over = Vec::new();
        let listed = layout::list(&checkpoints, CheckpointKind::Step).map_err(unreadable)?;
        for (_, path) in listed.into_iter().rev() {
            match Checkpoint::open(&path) {
                Ok(checkpoint) => return Ok(Self { folder, checkpoint: Some(checkpoint), passed_over }),
                Err(damage) => passed_over.push(damage),
            }
        }
        if passed_over.is_empty() {
            check_not_lost(folder.as_ref().map_or(run_folder, RunFolder::path))?;
            return Ok(Self { folder, ..Self::default() });
        }
        let damages: Vec<String> = passed_over.iter().map(ToString::to_string).collect();
        Err(Diagnostic::config(format!("no checkpoint of the run can be used: {}", damages.join("; ")))
            .at(checkpoints.display())
            .hint("start from the beginning in another folder with `--out DIR`, or name an `anomaly-step-...` with `--resume`"))
    }

    /// Copies keys of the schedule that the run file lacks from the checkpoint: a run that is extended keeps its
    /// earlier learning rates.
    pub fn inherit(&self, config: &mut RunConfig, source: &Source) {
        let saved = self.checkpoint.as_ref().and_then(|saved| saved.config.get("train")?.get("decay_steps"));
        let saved = saved.and_then(|steps| u64::try_from(steps.as_integer()?).ok());
        if config.train.schedule == ScheduleChoice::Cosine && !source.is_written("train.decay_steps") {
            config.train.decay_steps = saved.or(config.train.decay_steps);
        }
    }

    /// Restores the state of a run; refuses another run's checkpoint unless `anyway` is set.
    ///
    /// # Errors
    /// A difference, by key, or a tensor that does not match.
    pub fn restore(self, run: &mut ReadyRun, anyway: bool) -> Result<Start, Diagnostic> {
        let ReadyRun { setup, state, update_metrics, .. } = run;
        let Self { folder, checkpoint, passed_over } = self;
        let Some(checkpoint) = checkpoint else { return Ok(anew(folder)) };
        check_not_shorter(&checkpoint, setup.config.train.max_steps)?;
        let identity = RunIdentity::of(setup)?;
        let differences = identity.differences(&checkpoint)?;
        if !anyway && !differences.is_empty() {
            return Err(other_run(&checkpoint, &differences));
        }
        check_states(&checkpoint, setup, &differences)?;
        let mut remarks: Vec<String> =
            passed_over.iter().map(|damage| format!("passed over {damage}")).collect();
        let remarked = identity.remarks(&checkpoint);
        remarks.extend(differences.iter().chain(&remarked).map(ToString::to_string));
        load(&checkpoint, setup, (state, update_metrics), anyway)?;
        let Checkpoint { path, state: saved, .. } = checkpoint;
        let from = path.display().to_string();
        let differences = [differences, remarked].concat();
        let mut resumes = saved.resume;
        resumes.push(Resume { step: saved.step, from, unix_s: unix_s(), differences });
        // For sinks, a run in a folder of its own is a new run.
        let kept = if folder.is_some() { saved.sink } else { Vec::new() };
        remarks.extend(kept.iter().filter_map(|sink| {
            let (name, why) = (&sink.counts.name, sink.missing.as_ref()?);
            Some(format!(
                "the checkpoint has no state of sink `{name}` ({why}), so its rows are not verified"
            ))
        }));
        let sinks =
            resumed_sinks(kept, &setup.config).map_err(|what| Damage::new(&path.join(STATE), what))?;
        let sinks = SinkResume { step: saved.step, sinks };
        let (step, totals, alerts) = (saved.step, saved.totals, saved.alerts);
        let (identity, from, sinks) = (Some(identity), Some(path), Some(sinks));
        Ok(Start { step, folder, identity, from, totals, alerts, sinks, resumes, remarks })
    }
}

impl Start {
    /// Time since the run's start, pauses left out.
    #[must_use]
    pub fn clock(&self) -> Duration {
        Duration::try_from_secs_f64(self.totals.run_s).unwrap_or_default()
    }

    /// The event of a resume.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        let from = self.from.as_ref().map(|path| format!("resumes from {}", path.display()));
        let said: Vec<&str> = from.iter().chain(&self.remarks).map(String::as_str).collect();
        let level = if self.remarks.is_empty() { AlertLevel::INFO } else { AlertLevel::WARN };
        (!said.is_empty()).then(|| Event::new(self.step, level, "resumed", said.join("; ")))
    }

    /// Sets aside the checkpoints of the run folder after the step at which the run resumes.
    ///
    /// # Errors
    /// The folder cannot be changed.
    pub fn rewind(&self, disk: &Disk, run_folder: &Path) -> Result<(), Diagnostic> {
        let folder = run_folder.join(CHECKPOINTS);
        let failed = |error: io::Error| {
            Diagnostic::run(format!("the checkpoints of the run cannot be put in order ({error})"))
                .at(folder.display())
                .hint("is the disk full, or the folder read-only?")
        };
        let mut left = layout::list(&folder, CheckpointKind::Step).map_err(failed)?;
        left.retain(|(step, _)| *step <= self.step);
        let pointed =
            retention::target(&folder, BEST).filter(|best| left.iter().any(|(_, path)| path == best));
        let lowest = || {
            let losses = left.iter().filter_map(|(_, path)| Some((read::val_loss(path)?, path.clone())));
            losses.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, path)| path)
        };
        retention::rewind(disk, &folder, self.step, pointed.or_else(lowest).as_deref()).map_err(failed)
    }
}

/// The start of a run that was stopped before its first checkpoint.
fn anew(folder: Option<RunFolder>) -> Start {
    let again = folder.is_some();
    let remarks = again.then(|| "it has no checkpoint yet, so it starts from the beginning".to_string());
    let sinks = again.then(|| SinkResume { step: 0, sinks: Vec::new() });
    Start { folder, sinks, remarks: remarks.into_iter().collect(), ..Start::default() }
}

/// Refuses a run whose checkpoints were removed: from the beginning it would replace its own results. The status of a
/// killed process may be older than its first checkpoint; the events are not.
fn check_not_lost(run_folder: &Path) -> Result<(), Diagnostic> {
    let record = RunRecord::read(run_folder).map_err(|damage| damage.hint(ANEW))?.unwrap_or_default();
    let has_ended = record.status == RunStatus::Completed;
    let path = run_folder.join(EVENTS);
    let places = events::places(&path, WRITTEN).map_err(|error| {
        Diagnostic::config(format!("the events of the run cannot be read ({error})"))
            .at(path.display())
            .hint(ANEW)
    })?;
    // A run does not resume from an anomaly by itself.
    let has_written = places.iter().any(|place| place.starts_with(&format!("{CHECKPOINTS}/{STEP}")));
    if !has_ended && !has_written && record.checkpoint.is_none() {
        return Ok(());
    }
    let hint = match record.checkpoint.filter(|path| path.exists()) {
        Some(path) => {
            format!("`--resume {} --out DIR` begins at the checkpoint that it names", path.display())
        }
        None => ANEW.to_string(),
    };
    let message = if has_ended {
        format!("the run has done {} steps, but its folder has no checkpoint", record.steps)
    } else {
        "the run has written checkpoints, but its folder has none".to_string()
    };
    Err(Diagnostic::config(message).at(run_folder.join(CHECKPOINTS).display()).hint(hint))
}

/// Refuses a run that ends before its checkpoint: its record would be of more steps than its run file has.
fn check_not_shorter(checkpoint: &Checkpoint, max_steps: u64) -> Result<(), Diagnostic> {
    let step = checkpoint.state.step;
    if step <= max_steps {
        return Ok(());
    }
    let message = format!("the checkpoint is after {step} steps, and `train.max_steps` is {max_steps}");
    let hint = format!(
        "set train.max_steps to {step} or more, or resume an earlier checkpoint with `--resume PATH --out DIR`"
    );
    Err(Diagnostic::config(message).at(checkpoint.path.display()).hint(hint))
}

fn lies_in(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(path).is_some_and(|path| path.parent().map(Path::to_path_buf) == real(folder))
}

fn other_run(checkpoint: &Checkpoint, differences: &[Difference]) -> Diagnostic {
    let said: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Diagnostic::config(format!("the checkpoint is of another run: {}", said.join("; ")))
        .at(checkpoint.path.display())
        .hint("restore it, or use `--resume-anyway`, which records the difference and resumes")
}

/// Refuses states of the optimizer in another format or in other blocks: their codes would be read as other values. A
/// state whose type has changed has tensors of another type, which are refused when they are read.
fn check_states(
    checkpoint: &Checkpoint,
    setup: &RunSetup,
    differences: &[Difference],
) -> Result<(), Diagnostic> {
    const FIELDS: [&str; 3] = ["format", "block", "expand"];
    let changes_codes = |difference: &&Difference| {
        let below = difference.key.strip_prefix("optimizer.states.");
        let field = below.and_then(|below| below.rsplit_once('.'));
        field.is_some_and(|(state, field)| {
            setup.config.optimizer.states.contains_key(state) && FIELDS.contains(&field)
        })
    };
    let Some(difference) = differences.iter().find(changes_codes) else { return Ok(()) };
    let message = format!("the checkpoint's states of the optimizer do not fit: {difference}");
    Err(Diagnostic::config(message).at(checkpoint.path.display()).hint(OTHER_RUN))
}

/// The checkpoint's state for each sink of the run file: that of the first unused sink with the same name.
fn resumed_sinks(mut kept: Vec<SinkRecord>, config: &RunConfig) -> Result<Vec<ResumedSink>, String> {
    let mut resumed = |name: &str| {
        let Some(index) = kept.iter().position(|kept| kept.counts.name == name) else {
            return Ok(ResumedSink::default());
        };
        let SinkRecord { counts, state, .. } = kept.remove(index);
        let state = state.map_or(Ok(Vec::new()), |state| sanity::decode(&state))?;
        Ok(ResumedSink { state, counts })
    };
    config.sink.iter().map(|sink| resumed(&sink.name)).collect()
}

/// Puts a checkpoint's tensors and counters into a run's state. `fork`: the run may have other casts.
fn load(
    checkpoint: &Checkpoint,
    setup: &RunSetup,
    (state, meter): (&mut TrainState, &mut UpdateMetrics),
    fork: bool,
) -> Result<(), Diagnostic> {
    for switch in &checkpoint.state.schedule {
        let own = setup.config.quant.schedule.get(switch.entry);
        if own.is_some_and(|own| own.trigger.to_string() == switch.trigger) {
            state.switch_casts(switch.clone());
        } else {
            tracing::warn!(
                "the checkpoint's run changed its casts at step {} ({}), and the run file's schedule has no such entry: the run continues without that change",
                switch.step,
                switch.trigger
            );
        }
    }
    let TrainState { params, quant, optimizer, .. } = state;
    let specs = &params.layout.specs;
    let elements: usize = specs.iter().map(|spec| spec.len()).sum();
    let most = |bytes: usize, tensors: usize| bytes as u64 + HEADER.0 + HEADER.1 * tensors as u64;

    let (path, bytes) = checkpoint.file(MODEL, most(4 * elements, specs.len()))?;
    let file = read::tensors(&path, &bytes)?;
    for (spec, value) in specs.iter().zip(&mut params.values) {
        let values = file.required(&weights::key(&spec.name), &spec.shape)?;
        *value = tensor::flat(values, &setup.device.tensors);
    }

    let states: Vec<usize> = optimizer.state_elements(&params.layout).collect();
    // A code with scale, exponent and center, in four tensors; blocks have at least one element.
    let sizes = states.iter().map(|elements| 13 * elements);
    let (path, bytes) = checkpoint.file(OPTIMIZER, most(sizes.sum(), 4 * states.len()))?;
    let file = read::tensors(&path, &bytes)?;
    optimizer.restore(checkpoint.state.optimizer.updates, params, &file, state_key, shared_state_key)?;
    state.loss_scale.restore(checkpoint.state.loss_scale);

    // Two codes, a counter, an initial value.
    let (path, bytes) = checkpoint.file(METER, most(10 * elements, 4 * specs.len()))?;
    let file = read::tensors(&path, &bytes)?;
    let record = &checkpoint.state.meter;
    meter.restore(&params.layout, &record.dead_steps, record.initial_seed, &file)?;

    quant
        .restore(&checkpoint.state.quant, fork)
        .map_err(|error| error.at(checkpoint.path.display()).hint(OTHER_RUN))
}
