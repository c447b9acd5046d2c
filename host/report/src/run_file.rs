//! The run file of a run (`config.toml`): its keys and their values as text.
//!
//! Read leniently: files of other versions have other keys, and missing keys are `None`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use altgrad_config::{Source, block_for_granularity};
use altgrad_run_folder::{csv_files::CsvFiles, record::shown};
use toml::{Table, Value};

/// Bytes of the largest file that is read whole.
const LARGEST: u64 = 16 << 20;

/// Keys of a run file that do not change the training: two runs that differ in nothing else are repetitions.
const NO_DIFFERENCE: [&str; 13] = [
    "run.name",
    "run.seed",
    "run.out",
    "run.device",
    "plugins.",
    // The keys that they set are in the file.
    "model.preset",
    OF_RECIPE,
    "train.full_eval",
    "observe.",
    "curvature.",
    "checkpoint.",
    "limits.",
    "sink",
];
/// Keys of alerts and of their measurements, which change the training only if an alert switches casts.
pub(super) const OF_ALERTS: [&str; 4] = ["alerts.", "metrics.", "shadow.", "train.eval_interval"];

/// The name of the recipe whose keys are in the file.
pub(super) const OF_RECIPE: &str = "quant.from_recipe";

/// The key of the fingerprint of all token ids, which no run file has.
const FINGERPRINT: &str = "data.fingerprint";
/// Characters of a fingerprint that are shown.
const SHOWN: usize = 12;

/// The key prefix of the storage of the optimizer's states: one key each.
pub(super) const STATES: &str = "optimizer.states.";
/// The rounding of states unless the run file names another.
const NEAREST: &str = "nearest-even";

/// A data set without the folder it is in, which differs between machines; data of the same name are told apart by
/// their fingerprint.
fn without_folder(data: &str) -> String {
    match data.split_once(':') {
        Some((kind, path)) => {
            format!("{kind}:{}", path.trim_end_matches('/').rsplit('/').next().unwrap_or(path))
        }
        None => data.to_owned(),
    }
}

/// The run file: dotted keys and values as they are written there, text without its quotes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFile {
    keys: BTreeMap<String, String>,
    csv_files: CsvFiles,
}

impl RunFile {
    /// Reads a run file; empty without one.
    ///
    /// # Errors
    /// One sentence: the file's fault.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let Some(bytes) = read_whole(path)? else { return Ok(Self::default()) };
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_string())?;
        let (mut table, _) = Source::parse(path, text).map_err(|refusal| refusal.message)?;
        if let Some(Value::Table(casts)) = table.get_mut("quant") {
            block_for_granularity(casts, false);
            let entries = casts.get_mut("schedule").and_then(Value::as_array_mut).into_iter().flatten();
            for entry in entries.filter_map(Value::as_table_mut) {
                block_for_granularity(entry, false);
            }
        }
        Ok(Self::of(&table))
    }

    /// The keys of a run file.
    pub(super) fn of(table: &Table) -> Self {
        let mut keys = BTreeMap::new();
        table.iter().for_each(|(key, value)| flatten(key, value, &mut keys));
        if let Some(data) = keys.get_mut("data.dataset") {
            *data = without_folder(data);
        }
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

    /// True if anything is rounded to a format: operands, by layer, by site or on a schedule, or the optimizer's
    /// states.
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

fn flatten(key: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) if key.starts_with(STATES) && stored_as(table).is_some() => {
            keys.extend(stored_as(table).map(|storage| (key.to_string(), storage)));
        }
        Value::Table(table) => {
            table.iter().for_each(|(name, value)| flatten(&format!("{key}.{name}"), value, keys));
        }
        Value::Array(list) if list.iter().any(Value::is_table) => {
            list.iter()
                .enumerate()
                .for_each(|(index, value)| flatten(&format!("{key}.{index}"), value, keys));
        }
        Value::String(text) => {
            keys.insert(key.to_string(), text.clone());
        }
        other => {
            keys.insert(key.to_string(), shown(other));
        }
    }
}

/// A short name of the storage of an optimizer's state: `E4M3/128`, the format and its block; `E4M3/128 stochastic`, if
/// it is not rounded to nearest. `None` for a table with other keys.
fn stored_as(table: &Table) -> Option<String> {
    let known = |key: &String| ["format", "block", "rounding"].contains(&key.as_str());
    let format = table.get("format")?.as_str().filter(|_| table.keys().all(known))?;
    let block = table.get("block").map_or(String::new(), |block| format!("/{block}"));
    let rounding = table.get("rounding").and_then(Value::as_str).unwrap_or(NEAREST);
    let rounding = if rounding == NEAREST { String::new() } else { format!(" {rounding}") };
    Some(format!("{format}{block}{rounding}"))
}

/// A file whole; `None` if there is none.
pub(super) fn read_whole(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(metadata) if metadata.len() > LARGEST => Err("it is larger than 16 MB".into()),
        Ok(_) => altgrad_base::files::read(path).map(Some).map_err(|error| error.to_string()),
    }
}
