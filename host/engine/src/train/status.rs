//! The outcome of a run: the report, and `run.json` for other programs.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use altgrad_alerts::{AlertFacts, Alerts, Evaluation};
use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::AlertsSection;
use altgrad_loader::{LibraryInfo, vet::Checked};
use altgrad_metrics::{MetricId, families::closing};
use altgrad_run_folder::{
    events::unix_s,
    folder::{RunFolder, STATUS},
    record::{Environment, EvaluationKind, Library, Resume, RunRecord, RunStatus, SinkCounts},
};

use crate::{
    checkpoint::{Checkpointer, Start, state::RunTotals},
    device_rates::Products,
    passes::MeanLoss,
    setup::RunSetup,
    state::TrainState,
};

#[cfg(feature = "gpu")]
use {
    crate::{fused_ops::attention, tensor::product_strategy},
    altgrad_run_folder::record::Gpu,
};

/// The kernels of products, those of attention included. The CPU has one.
fn choices() -> BTreeMap<String, String> {
    #[cfg(feature = "gpu")]
    return product_strategy::choices().into_iter().chain(attention::choices()).collect();
    #[cfg(not(feature = "gpu"))]
    BTreeMap::new()
}

/// The result and kind of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOutLoss {
    /// The kind of evaluation.
    pub kind: EvaluationKind,
    /// The loss.
    pub mean: MeanLoss,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct RunReport {
    /// When the first process of the run began: seconds since 1970.
    pub started_unix_s: Option<u64>,
    /// Steps done, those before it was resumed included.
    pub steps: u64,
    /// Loss of the last step's batch before its update; missing if no step was done.
    pub final_loss: Option<f64>,
    /// The newest evaluation of this process, if it made one.
    pub last_val: Option<Evaluation>,
    /// Fingerprint of all token ids.
    pub data_fingerprint: Option<String>,
    /// Held-out loss of the initial weights, nats per token, if they were evaluated.
    pub initial_val_loss: Option<f64>,
    /// Held-out loss of the final weights; missing if the run failed.
    pub final_val: Option<HeldOutLoss>,
    /// Alerts and evaluations with their results, including one at the end.
    pub alerts: Alerts,
    /// Training tokens.
    pub tokens: u64,
    /// Time in gradients and updates: evaluations and the passes for `[curvature]` and `[observe]` are not counted.
    pub training_time: Duration,
    /// The steps' matrix products and the device's rate, if it was measured.
    pub products: Option<Products>,
    /// True if the user stopped it.
    pub interrupted: bool,
    /// True if loss or gradients stayed NaN or infinite, or the final loss or weights are.
    pub not_finite: bool,
    /// The newest checkpoint, if there is one.
    pub checkpoint: Option<PathBuf>,
    /// True if the last due checkpoint was not written, or an interrupted run has none of its last step.
    pub checkpoint_failed: bool,
    /// Times it was resumed.
    pub resumes: Vec<Resume>,
    /// The counts of delivered and lost rows and events in each sink.
    pub sinks: Vec<SinkCounts>,
    /// The kernels of products in the run's earlier part, until a difference is reported.
    earlier_products: BTreeMap<String, String>,
    /// The trace of some steps, if one was asked for and written.
    pub profile: Option<PathBuf>,
    /// The faults that did not stop the run.
    pub faults: Vec<Diagnostic>,
}

impl RunReport {
    /// The status of a run that starts at `start`.
    #[must_use]
    pub fn starting(start: &Start, alerts: AlertsSection, facts: AlertFacts) -> Self {
        Self {
            steps: start.step,
            final_loss: start.totals.final_loss,
            alerts: Alerts::resumed(alerts, start.alerts.clone()).with_facts(facts),
            tokens: start.totals.tokens,
            training_time: Duration::try_from_secs_f64(start.totals.training_s).unwrap_or_default(),
            checkpoint: start.from.clone(),
            resumes: start.resumes.clone(),
            ..Self::default()
        }
    }

    /// Takes the start time and the initial loss from the record of an earlier process of the run in this folder.
    /// Without a record the run starts now; a damaged one is a warning, and both are unknown.
    pub fn go_on_from(&mut self, folder: &RunFolder) {
        match RunRecord::read(folder.path()) {
            Ok(Some(record)) => {
                self.started_unix_s = record.started_unix_s;
                self.initial_val_loss = record.initial_val_loss;
                self.earlier_products = record.environment.gpu.unwrap_or_default().products;
            }
            Ok(None) => self.started_unix_s = unix_s(),
            Err(damage) => {
                let place = damage.place.unwrap_or_default();
                tracing::warn!(
                    "{place}: {}; the run's start time and initial loss are unknown",
                    damage.message
                );
            }
        }
    }

    /// Warns once if a product that the run's earlier part computed is computed by another kernel now.
    pub(super) fn compare_products(&mut self) {
        let now = choices();
        let differs = |(problem, before): (&String, &String)| {
            let now = now.get(problem).filter(|now| *now != before)?;
            Some(format!("the product {problem} is computed by {now}, before the resume by {before}"))
        };
        if let Some(difference) = self.earlier_products.iter().find_map(differs) {
            tracing::warn!("{difference}: sums differ in their last bits");
            self.earlier_products.clear();
        }
    }

    /// Records a completed step of `tokens` tokens.
    pub fn add_step(&mut self, loss: f64, tokens: u64, elapsed: Duration) {
        self.steps += 1;
        self.final_loss = Some(loss);
        self.tokens += tokens;
        self.training_time += elapsed;
    }

    /// Sums until now, `run` after the run's start.
    #[must_use]
    pub fn totals(&self, run: Duration) -> RunTotals {
        RunTotals {
            tokens: self.tokens,
            training_s: self.training_time.as_secs_f64(),
            run_s: run.as_secs_f64(),
            final_loss: self.final_loss,
        }
    }

    /// The step at which the run was found to diverge, or since which it is not finite.
    #[must_use]
    pub fn diverged_at(&self) -> Option<u64> {
        let since = self.not_finite.then(|| self.steps.saturating_sub(self.alerts.nan_steps()));
        self.alerts.diverged_at().or(since)
    }

    /// Training tokens per second; missing if no step was done.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.tokens as f64 / self.training_time.as_secs_f64())
    }

    /// Model FLOPs utilization of all steps; missing without a step or the device's rate.
    #[must_use]
    pub fn utilization(&self) -> Option<f64> {
        let products = self.products.filter(|_| self.steps > 0)?;
        Some(products.utilization(self.steps, self.training_time))
    }

    /// The same at the rate of the device's data sheet; missing for devices whose data sheet is unknown.
    #[must_use]
    pub fn sheet_utilization(&self) -> Option<f64> {
        let products = self.products.filter(|_| self.steps > 0)?;
        products.sheet_utilization(self.steps, self.training_time)
    }

    /// The summary that sinks receive at the end.
    #[must_use]
    pub fn summary(&self) -> Vec<(MetricId, f64)> {
        let entries = [
            (&closing::FINAL_TRAIN_LOSS, self.final_loss),
            (&closing::FINAL_VAL_LOSS, self.final_val.map(|held_out| held_out.mean.loss)),
            (&closing::BEST_VAL_LOSS, self.alerts.best().map(|best| best.loss)),
            (&closing::TOKENS_PER_S, self.tokens_per_s()),
        ];
        entries.into_iter().filter_map(|(metric, value)| Some((metric.into(), value?))).collect()
    }
}

/// Writes `run.json`.
///
/// # Errors
/// The run folder cannot be written.
pub fn write(
    (setup, state): (&RunSetup, &TrainState),
    folder: &RunFolder,
    status: RunStatus,
    report: &RunReport,
    error: Option<&Diagnostic>,
) -> Result<(), Diagnostic> {
    // Through a value, whose keys are sorted.
    let record = serde_json::to_value(record((setup, state), status, report, error))
        .map_err(|error| Diagnostic::run(format!("the run's status cannot be written ({error})")))?;
    let contents = format!("{record:#}\n");
    match status {
        RunStatus::Running => folder.write(STATUS, contents.as_bytes()),
        _ => folder.write_last(STATUS, contents.as_bytes()),
    }
}

fn record(
    (setup, state): (&RunSetup, &TrainState),
    status: RunStatus,
    report: &RunReport,
    error: Option<&Diagnostic>,
) -> RunRecord {
    let best = report.alerts.best();
    RunRecord {
        name: setup.config.run.name.clone(),
        status,
        error: error.map(|error| error.message.clone()),
        faults: report.faults.iter().map(|fault| fault.message.clone()).collect(),
        sinks: report.sinks.clone(),
        started_unix_s: report.started_unix_s,
        updated_unix_s: unix_s(),
        steps: report.steps,
        final_train_loss: report.final_loss,
        initial_val_loss: report.initial_val_loss,
        final_val_loss: report.final_val.map(|held_out| held_out.mean.loss),
        final_evaluation: report.final_val.map(|held_out| held_out.kind),
        final_val_tokens: report.final_val.map(|held_out| held_out.mean.tokens),
        best_val_loss: best.map(|best| best.loss),
        best_val_step: best.map(|best| best.step),
        diverged: report.diverged_at().is_some(),
        diverged_step: report.diverged_at(),
        not_finite: report.not_finite,
        alerts: report.alerts.counts().map(|(kind, count)| (kind.name().to_string(), count)).collect(),
        tokens: report.tokens,
        training_s: report.training_time.as_secs_f64(),
        tokens_per_s: report.tokens_per_s(),
        mfu: report.utilization(),
        mfu_data_sheet: report.sheet_utilization(),
        product_gflop_s: report.products.map(|products| products.gflop_s),
        data_sheet_gflop_s: report.products.and_then(|products| products.sheet_gflop_s),
        memory_mb: setup.device.peak_memory().map(|bytes| bytes as f64 / 1e6),
        data_fingerprint: report.data_fingerprint.clone(),
        unigram_entropy: report.alerts.facts().unigram_entropy,
        parameters: state.params.layout.elements(),
        checkpoint: report.checkpoint.clone(),
        resumes: report.resumes.clone(),
        schedule: state.schedule.switches().to_vec(),
        computed: setup.computed.clone(),
        config: serde_json::to_value(&setup.config).unwrap_or_default(),
        environment: environment(setup),
    }
}

/// The host, and the libraries the run uses (absolute paths).
fn environment(setup: &RunSetup) -> Environment {
    let used = |library: &&LibraryInfo| setup.plugins_of(library).next().is_some();
    let plugins = setup.registry.loaded().filter(used).map(|library| Library {
        path: library.path.clone(),
        sha256: library.sha256.clone(),
        provides: library
            .descriptors
            .iter()
            .map(|descriptor| format!("{} {} {}", descriptor.kind, descriptor.id, descriptor.version))
            .collect(),
        api_version: library.build.api_version.to_string(),
        rustc: library.build.rustc.to_string(),
        checked: Some(setup.plugins_of(library).all(|plugin| plugin.checked == Checked::Passed)),
    });
    Environment {
        host_version: env!("CARGO_PKG_VERSION").to_string(),
        host_name: host_name(),
        device: setup.device.label.clone(),
        threads: rayon::current_num_threads(),
        plugins: plugins.collect(),
        #[cfg(feature = "gpu")]
        gpu: crate::gpu_facts::of(&setup.device.tensors).map(|gpu| Gpu {
            products: choices(),
            replayed_passes: setup.model.recorder.replays(),
            ..gpu
        }),
        #[cfg(not(feature = "gpu"))]
        gpu: None,
        kernels: setup.device.kernel_file(),
    }
}

/// The machine's name, as Linux reports it; `None` elsewhere.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A failed run's error, with the checkpoint to resume from. `half_updated` is the step whose update failed half-way,
/// if one did.
#[must_use]
pub fn with_checkpoint(
    mut error: Diagnostic,
    checkpointer: &Checkpointer,
    half_updated: Option<u64>,
) -> Diagnostic {
    let mut hints: Vec<String> = error.hint.take().into_iter().collect();
    match checkpointer.last() {
        Some((_, path)) if !checkpointer.is_own_newest(path) => {
            let path = path.display();
            hints.push(format!(
                "it has no checkpoint after {path}: `--resume {path} --out DIR` begins there again"
            ));
        }
        Some((_, path)) => {
            hints.push(format!("its last good state is {}: `--resume auto` resumes from it", path.display()));
            hints.extend(
                half_updated.map(|step| format!("with `--max-steps {step}` up to the update that failed")),
            );
        }
        None => hints.push("it failed before its first checkpoint".to_string()),
    }
    hints.extend(
        checkpointer.anomaly().map(|path| format!("the state before it went wrong is {}", path.display())),
    );
    Diagnostic { hint: Some(hints.join("; ")), ..error }
}
