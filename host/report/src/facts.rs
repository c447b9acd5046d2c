//! Facts about a run from `config.toml` and `run.json`: keys and their values, and its outcome.
//!
//! Read leniently: files of other versions have other keys, and missing keys are `None`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use altgrad_config::Source;
use altgrad_run_folder::{
    csv_files::CsvFiles,
    record::{EvaluationKind, RunRecord},
};
use serde::Deserialize;
use serde_json::Value;

use super::computed::{LayerKind, bits, kinds};

/// Bytes of the largest file that is read whole.
const LARGEST: u64 = 16 << 20;

/// Keys of a run file that do not change the training: two runs that differ in nothing else are repetitions.
const NO_DIFFERENCE: [&str; 12] = [
    "run.name",
    "run.seed",
    "run.out",
    "run.device",
    "plugins.",
    // The keys it sets are in the file.
    "model.preset",
    "train.full_eval",
    "observe.",
    "curvature.",
    "checkpoint.",
    "limits.",
    "sink",
];
/// Keys of alerts and of their measurements, which change the training only if an alert switches casts.
pub(super) const OF_ALERTS: [&str; 4] = ["alerts.", "metrics.", "shadow.", "train.eval_interval"];

/// The key of the fingerprint of all token ids, which no run file has.
const FINGERPRINT: &str = "data.fingerprint";
/// Characters of a fingerprint that are shown.
const SHOWN: usize = 12;

/// The key prefix of the storage of the optimizer's states: one key each.
pub(super) const STATES: &str = "optimizer.states.";
/// The rounding of states unless the run file names another.
const NEAREST: &str = "nearest-even";

/// The run file: dotted keys and values as they are written there, text without its quotes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    keys: BTreeMap<String, String>,
    csv_files: CsvFiles,
}

impl Config {
    /// Reads a run file; empty without one.
    ///
    /// # Errors
    /// One sentence: the file's fault.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let Some(bytes) = read(path)? else { return Ok(Self::default()) };
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_string())?;
        let (table, _) = Source::parse(path, text).map_err(|refusal| refusal.message)?;
        Ok(Self::of(&table))
    }

    /// The keys of a run file.
    pub(super) fn of(table: &toml::Table) -> Self {
        let mut keys = BTreeMap::new();
        table.iter().for_each(|(key, value)| flatten(key, value, &mut keys));
        Self { keys, csv_files: CsvFiles::of(table) }
    }

    /// A key's value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// Sets the fingerprint of the data as a key, or removes it.
    pub(super) fn set_fingerprint(&mut self, fingerprint: Option<&str>) {
        self.keys.remove(FINGERPRINT);
        if let Some(fingerprint) = fingerprint.filter(|_| !self.keys.is_empty()) {
            self.keys.insert(FINGERPRINT.to_string(), fingerprint.chars().take(SHOWN).collect());
        }
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if anything is rounded to a format: operands, by layer, by site or on a schedule, or the optimizer's states.
    #[must_use]
    pub fn is_quantized(&self) -> bool {
        let is_number = |value: &str| value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
        let stored = |key: &str, value: &str| key.starts_with(STATES) && value != "f32" && !is_number(value);
        self.rounds_operands() || self.keys.iter().any(|(key, value)| stored(key, value))
    }

    /// True if an operand is rounded to a format, anywhere and at any time.
    #[must_use]
    pub(super) fn rounds_operands(&self) -> bool {
        let is_format = |key: &str| {
            let name = key.rsplit('.').next().unwrap_or(key);
            key.starts_with("quant.") && ["weight", "activation", "grad", "format", "recipe"].contains(&name)
        };
        self.keys.iter().any(|(key, value)| is_format(key) && value != "none")
    }

    /// The keys of the rules by layer: `quant.layer.0`, and so on.
    pub fn rules(&self) -> impl Iterator<Item = String> {
        let all = (0..).map(|index| format!("quant.layer.{index}"));
        all.take_while(|rule| self.get(&format!("{rule}.match")).is_some())
    }

    /// The training tokens of a step.
    #[must_use]
    pub fn tokens_per_step(&self) -> Option<f64> {
        let factors = ["data.batch_size", "data.block_size", "train.grad_accum"];
        factors.iter().try_fold(1.0, |tokens, key| Some(tokens * self.get(key)?.parse::<f64>().ok()?))
    }

    /// The keys that change the training.
    pub fn differences(&self) -> impl Iterator<Item = (&str, &str)> {
        let switched_by_alert =
            self.keys.keys().any(|key| key.starts_with("quant.schedule.") && key.ends_with(".on"));
        let without_effect =
            move |key: &str| is_of(key, &NO_DIFFERENCE) || is_of(key, &OF_ALERTS) && !switched_by_alert;
        let kept = self.keys.iter().filter(move |(key, _)| !without_effect(key));
        kept.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The files of the csv sink.
    #[must_use]
    pub fn csv_files(&self) -> &CsvFiles {
        &self.csv_files
    }
}

/// True if a key is one of these or lies in one.
pub(super) fn is_of(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// True if configurations have several values of a key. Keys of alerts differ only among those that have them.
pub(super) fn differs<T: Ord>(key: &str, values: impl Iterator<Item = Option<T>>) -> bool {
    let counts = values.filter(|value| value.is_some() || !is_of(key, &OF_ALERTS));
    counts.collect::<BTreeSet<_>>().len() > 1
}

fn flatten(key: &str, value: &toml::Value, keys: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) if key.starts_with(STATES) && stored_as(table).is_some() => {
            keys.extend(stored_as(table).map(|storage| (key.to_string(), storage)));
        }
        toml::Value::Table(table) => {
            table.iter().for_each(|(name, value)| flatten(&format!("{key}.{name}"), value, keys));
        }
        toml::Value::Array(list) if list.iter().any(toml::Value::is_table) => {
            list.iter()
                .enumerate()
                .for_each(|(index, value)| flatten(&format!("{key}.{index}"), value, keys));
        }
        toml::Value::String(text) => {
            keys.insert(key.to_string(), text.clone());
        }
        other => {
            keys.insert(key.to_string(), other.to_string());
        }
    }
}

/// A short name of the storage of an optimizer's state: `E4M3/128`, the format and its block; `E4M3/128 stochastic`, if it is not
/// rounded to nearest. `None` for a table with other keys.
fn stored_as(table: &toml::Table) -> Option<String> {
    let known = |key: &String| ["format", "block", "rounding"].contains(&key.as_str());
    let format = table.get("format")?.as_str().filter(|_| table.keys().all(known))?;
    let block = table.get("block").map_or(String::new(), |block| format!("/{block}"));
    let rounding = table.get("rounding").and_then(toml::Value::as_str).unwrap_or(NEAREST);
    let rounding = if rounding == NEAREST { String::new() } else { format!(" {rounding}") };
    Some(format!("{format}{block}{rounding}"))
}

/// A plugin library that a run used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plugin {
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
    /// Bits per value of weights, activations and gradients of linear layers, their blocks' scales included: `8.25/8.25/8`, once for
    /// each kind of layer.
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
    pub plugins: Vec<Plugin>,
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
        let Some(bytes) = read(path)? else { return Ok(None) };
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
        let plugin = |library: &Value| Plugin {
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

/// A file whole; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(metadata) if metadata.len() > LARGEST => Err("it is larger than 16 MB".into()),
        Ok(_) => altgrad_base::files::read(path).map(Some).map_err(|error| error.to_string()),
    }
}
