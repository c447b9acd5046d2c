//! The outcome of a run (`run.json`).
//!
//! Read leniently: files of other versions have other keys, and missing keys are `None`.

use std::path::Path;

use altgrad_run_folder::record::{EvaluationKind, RunRecord};
use serde::Deserialize;
use serde_json::Value;

use super::{
    computed::{LayerKind, bits, kinds},
    run_file::read_whole,
};

/// A plugin library that a run used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedPlugin {
    /// `format E4M3 0.1.0`.
    pub provides: String,
    /// Of its file.
    pub sha256: String,
    /// The compiler it was built with.
    pub rustc: String,
    /// True if it passed the quick checks before the run; runs of earlier versions do not record that.
    pub checked: Option<bool>,
}

/// A sink that lacks rows or events of its run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncompleteSink {
    /// As messages call it.
    pub name: String,
    /// Rows that it did not take.
    pub rows: u64,
    /// Events that it did not take.
    pub events: u64,
    /// The step of the first row or event that it did not take.
    pub from_step: Option<u64>,
    /// Rows that it had taken and that a resumed run found missing or changed, one sentence per resume.
    pub gaps: Vec<String>,
}

impl IncompleteSink {
    /// `None` for a sink that lacks nothing.
    fn from_json(sink: &Value) -> Option<Self> {
        let count = |key: &str| sink.get(key).and_then(Value::as_u64);
        let gaps = sink.get("gaps").and_then(Value::as_array).into_iter().flatten();
        let found = Self {
            name: sink.get("name").and_then(Value::as_str).unwrap_or_default().to_string(),
            rows: count("missing_rows").unwrap_or_default(),
            events: count("missing_events").unwrap_or_default(),
            from_step: count("missing_from_step"),
            gaps: gaps.filter_map(Value::as_str).map(str::to_string).collect(),
        };
        (found.rows > 0 || found.events > 0 || !found.gaps.is_empty()).then_some(found)
    }
}

/// The contents of `run.json`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// `completed`, `running`, `interrupted`, `failed`.
    pub status: Option<String>,
    /// The run's name.
    pub name: Option<String>,
    /// The error of a failed run.
    pub error: Option<String>,
    /// Fingerprint of all token ids; runs of earlier versions do not record it.
    pub data_fingerprint: Option<String>,
    /// Unigram entropy of the corpus, nats per token.
    pub unigram_entropy: Option<f64>,
    /// Steps done.
    pub steps: Option<u64>,
    /// Held-out loss of the final weights.
    pub final_val_loss: Option<f64>,
    /// True if it was measured on the whole validation split, and not on a sample.
    pub final_is_full: bool,
    /// Lowest held-out loss and its step.
    pub best: Option<(u64, f64)>,
    /// The step at which it was found to diverge.
    pub diverged_step: Option<u64>,
    /// Training tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Parameters of the model.
    pub parameters: Option<u64>,
    /// Bits per value of weights, activations and gradients of linear layers, their blocks' scales included:
    /// `8.25/8.25/8`, once for each kind of layer.
    pub bits: Option<String>,
    /// The formats of the operands of linear layers, one entry for each kind of layer.
    pub kinds: Vec<LayerKind>,
    /// When the file was written, seconds since 1970.
    pub updated_unix_s: Option<u64>,
    /// Its device.
    pub device: Option<String>,
    /// Threads of it.
    pub threads: Option<u64>,
    /// Version of the host.
    pub host_version: Option<String>,
    /// Libraries it used.
    pub plugins: Vec<UsedPlugin>,
    /// Times it was resumed.
    pub resumes: usize,
    /// Sinks that lack rows or events of the run, parts before it was resumed included.
    pub incomplete: Vec<IncompleteSink>,
    /// A value of another type than this version writes. Such values are missing here.
    pub fault: Option<String>,
}

impl Status {
    /// Reads `run.json`; `Ok(None)` without one.
    ///
    /// # Errors
    /// One sentence: the file's fault.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        let Some(bytes) = read_whole(path)? else { return Ok(None) };
        if bytes.is_empty() {
            return Err("it is empty: the run never started".into());
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if value.get("status").and_then(Value::as_str).is_none() {
            return Err("it is not a run's status".into());
        }
        let fault = RunRecord::deserialize(&value).err().map(|error| error.to_string());
        Ok(Some(Self { fault, ..Self::from_json(&value) }))
    }

    fn from_json(value: &Value) -> Self {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_string);
        let count = |key: &str| value.get(key).and_then(Value::as_u64);
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        let list =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let environment = value.get("environment").unwrap_or(&Value::Null);
        let plugin = |library: &Value| UsedPlugin {
            provides: list(library, "provides")
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(", "),
            sha256: text(library, "sha256").unwrap_or_default(),
            rustc: text(library, "rustc").unwrap_or_default(),
            checked: library.get("checked").and_then(Value::as_bool),
        };
        Self {
            status: text(value, "status"),
            name: text(value, "name"),
            error: text(value, "error"),
            data_fingerprint: text(value, "data_fingerprint"),
            unigram_entropy: number("unigram_entropy"),
            steps: count("steps"),
            final_val_loss: number("final_val_loss"),
            final_is_full: text(value, "final_evaluation").as_deref() == Some(EvaluationKind::Full.name()),
            best: count("best_val_step").zip(number("best_val_loss")),
            diverged_step: count("diverged_step"),
            tokens_per_s: number("tokens_per_s"),
            parameters: count("parameters"),
            bits: bits(value),
            kinds: kinds(value),
            updated_unix_s: count("updated_unix_s"),
            device: text(environment, "device"),
            threads: environment.get("threads").and_then(Value::as_u64),
            host_version: text(environment, "host_version"),
            plugins: list(environment, "plugins").iter().map(plugin).collect(),
            resumes: list(value, "resumes").len(),
            incomplete: list(value, "sinks").iter().filter_map(IncompleteSink::from_json).collect(),
            fault: None,
        }
    }
}
