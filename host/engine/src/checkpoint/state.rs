//! `state.toml`: the state of a checkpoint except tensors. README.md of this folder documents it key by key.
//!
//! TOML stores f64 exactly, infinities and NaN included. Missing values have no key.

use std::collections::BTreeMap;

use altgrad_alerts::AlertState;
use altgrad_base::diagnostic::Diagnostic;
use altgrad_run_folder::record::{CastSwitch, Resume, SinkCounts};
use serde::{Deserialize, Serialize};

use super::layout::CheckpointKind;
use crate::{quant::SavedQuantState, state::DynamicLossScale};

/// The format name in the file.
pub const FORMAT: &str = "altgrad checkpoint";
/// Version of the layout; another one is refused.
pub const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Updates done, which is the number of the next step.
    pub step: u64,
    /// The reason for the checkpoint.
    pub kind: CheckpointKind,
    /// Held-out loss of these parameters, nats per token, if they were evaluated.
    pub val_loss: Option<f64>,
    /// Version of the host that wrote it.
    pub host_version: String,
    /// The device of the run: `cpu`.
    pub device: String,
    /// Threads it computed with; results depend on them in the last bits.
    pub threads: usize,
    /// Sizes of the files of tensors, bytes by name.
    pub bytes: BTreeMap<String, u64>,
    /// The positions of the random streams and of the data.
    pub cursors: Cursors,
    /// The training data.
    pub data: CorpusRecord,
    /// The sums over the run.
    pub totals: RunTotals,
    /// The optimizer, except its buffers.
    pub optimizer: OptimizerRecord,
    /// The dynamic loss scale, if there is one.
    pub loss_scale: Option<DynamicLossScale>,
    /// The state of metrics, except tensors.
    pub meter: UpdateMetricsRecord,
    /// The state of rounding.
    pub quant: SavedQuantState,
    /// The state of alerts.
    pub alerts: AlertState,
    /// Changes of the casts so far.
    #[serde(default)]
    pub schedule: Vec<CastSwitch>,
    /// Formats, optimizer and sinks.
    #[serde(default)]
    pub plugin: Vec<PluginRecord>,
    /// A sink's own state, in the run file's order.
    #[serde(default)]
    pub sink: Vec<SinkRecord>,
    /// Earlier continuations.
    #[serde(default)]
    pub resume: Vec<Resume>,
}

/// Positions in the random streams: each draw has an address and none is consumed, so the addresses are the complete
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursors {
    /// Root of all streams.
    pub seed: u64,
    /// Step: address of stochastic rounding and data order.
    pub step: u64,
    /// Micro-batch within the run: address of dropout.
    pub micro_batch: u64,
}

/// The corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusRecord {
    /// Description for readers.
    pub description: String,
    /// Fingerprint of all token ids, training and validation: sha256 over the sha256 of their parts.
    pub fingerprint: String,
}

/// Sums over the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunTotals {
    /// Training tokens.
    pub tokens: u64,
    /// Seconds in steps.
    pub training_s: f64,
    /// Seconds since the run's start, as alerts' cooldowns count them; pauses left out.
    pub run_s: f64,
    /// Loss of the last step's batch before its update, if a step was done.
    pub final_loss: Option<f64>,
}

/// The optimizer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptimizerRecord {
    /// Name in the run file.
    pub name: String,
    /// Updates done.
    pub updates: u64,
}

/// The state of metrics between steps, except tensors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UpdateMetricsRecord {
    /// Steps for which dead elements were counted, one number per parameter; empty if they are not counted.
    #[serde(default)]
    pub dead_steps: Vec<u64>,
    /// The seed that draws the initial weights of parameters without `initial/PARAMETER`; none if they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_seed: Option<u64>,
}

/// A plugin's identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PluginRecord {
    /// `format`, `optimizer` or `sink`.
    pub kind: String,
    /// Name in the run file.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// SHA-256 of the library.
    pub sha256: String,
}

/// The stored state of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkRecord {
    /// Its name, and its counts of rows and events before the checkpoint.
    #[serde(flatten)]
    pub counts: SinkCounts,
    /// Base64 of its state.
    pub state: Option<String>,
    /// The reason why there is none: the sink had failed, or did not answer in time.
    pub missing: Option<String>,
}

impl CheckpointState {
    /// The file's text.
    ///
    /// # Errors
    /// A number has no representation in TOML.
    pub(super) fn to_toml(&self) -> Result<String, Diagnostic> {
        toml::to_string(self)
            .map_err(|error| Diagnostic::run(format!("the checkpoint's state cannot be written ({error})")))
    }
}
