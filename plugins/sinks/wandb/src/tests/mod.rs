//! The sink through its trait, against servers that keep the rules and break the network.
//!
//! `server` is the strict server of this crate; `mock` drives another one, in Python, where `ALTGRAD_WANDB_MOCK` names
//! it, and `official` the official client, where `ALTGRAD_WANDB_PYTHON` names a Python that has it.
#![allow(clippy::unwrap_used)]

mod disk;
mod endings;
mod faults;
mod kill;
mod mock;
mod official;
mod resume;
mod server;
mod servers;
mod surroundings;

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{
    Alert, AlertLevel, Config, ConfigValue, Histogram, Metric, MetricName, PluginError, RunInfo, RunOutcome,
    Sink,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{WandbSink, environment::Environment, json, pace::Pace};

/// The only key that servers of tests take.
pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

/// Paces at which a test does not take minutes.
fn fast() -> Pace {
    let ms = Duration::from_millis;
    Pace {
        interval: ms(40),
        gap: ms(2),
        heartbeat: ms(300),
        limit: ms(700),
        backoff: ms(20),
        backoff_most: ms(80),
        backoff_last: ms(40),
        limit_last: ms(200),
    }
}

/// A run folder and the destination of its runs.
struct Rig {
    _folder: Arc<TempDir>,
    /// The run folder.
    run: PathBuf,
    url: String,
    options: Vec<(String, ConfigValue)>,
    variables: Vec<(String, String)>,
    pace: Pace,
}

impl Rig {
    fn new(url: &str) -> Self {
        let variables = vec![("WANDB_API_KEY".to_string(), KEY.to_string())];
        let folder = Arc::new(TempDir::new().unwrap());
        let run = folder.path().to_path_buf();
        Self { _folder: folder, run, url: url.into(), options: Vec::new(), variables, pace: fast() }
    }

    /// With an option of the run file.
    fn with(mut self, name: &str, value: ConfigValue) -> Self {
        self.options.push((name.to_string(), value));
        self
    }

    fn text(self, name: &str, value: &str) -> Self {
        self.with(name, ConfigValue::Text(value.into()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run.join(name)
    }

    /// A sink open for the run, from `resume_step` on.
    fn open(&self, resume_step: Option<u64>) -> WandbSink {
        self.try_open(resume_step, &[]).unwrap()
    }

    fn try_open(&self, resume_step: Option<u64>, state: &[u8]) -> Result<WandbSink, PluginError> {
        let mut given = vec![("base_url".to_string(), ConfigValue::Text(self.url.as_str().into()))];
        given.extend(self.options.iter().cloned());
        let config = Config::resolve(&WandbSink::DESCRIPTOR.options, given).unwrap();
        let mut sink = WandbSink::with(&config, Environment::of(self.variables.clone()))?;
        sink.pace = self.pace;
        sink.open(&RunInfo {
            name: "exp".into(),
            folder: self.run.to_str().unwrap().into(),
            config_toml: "[train]\nlr = 1e-3\nmax_steps = 100\n[run]\nname = \"exp\"\n".into(),
            metrics: [].as_slice().into(),
            resume_step: resume_step.into(),
            state: state.into(),
        })?;
        Ok(sink)
    }

    /// Opens with nothing to come, as `wandb-upload` does, and finishes.
    fn upload(&self) -> Result<(), PluginError> {
        self.try_open(Some(u64::MAX), &[])?.finish(RunOutcome::FAILED)
    }
}

/// Waits until the server has so many rows and alerts.
fn wait_for(server: &server::Server, rows: usize, alerts: usize) {
    let by = Instant::now() + Duration::from_secs(60);
    let has_all = || {
        let state = server.state();
        state.runs.values().any(|run| run.history.len() >= rows && run.alerts.len() >= alerts)
    };
    while !has_all() {
        assert!(Instant::now() < by, "not {rows} rows and {alerts} alerts in a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The value of metric `index` at a step: ordinary and special numbers.
fn value(step: u64, index: u64) -> f64 {
    match (step + index) % 17 {
        3 => f64::NAN,
        5 => f64::INFINITY,
        7 => f64::NEG_INFINITY,
        _ => 1.0 / (step * 31 + index + 1) as f64,
    }
}

const NAMES: [&str; 4] = ["train/loss", "val/loss", "weights/rms/h.0.attn \"q\"", "grad/Ü"];

/// Logs the row of a step; `noise` is the value of a timing.
fn log(sink: &mut WandbSink, step: u64, noise: f64) {
    let timing = Metric { name: MetricName { name: "time/step_ms".into(), timing: true }, value: noise };
    let metric = |(index, name): (usize, &&'static str)| Metric {
        name: MetricName { name: (*name).into(), timing: false },
        value: value(step, index as u64),
    };
    let metrics: Vec<Metric<'_>> = NAMES.iter().enumerate().map(metric).chain([timing]).collect();
    sink.log(step, &metrics).unwrap();
}

/// Logs a histogram on every tenth step.
fn log_histogram(sink: &mut WandbSink, step: u64) {
    if step.is_multiple_of(10) {
        let (edges, counts) = ([0.0, 0.5, 1.0], [step, 3]);
        let (edges, counts) = (edges.as_slice().into(), counts.as_slice().into());
        sink.histogram(step, &Histogram { name: "weights/hist/x".into(), edges, counts }).unwrap();
    }
}

/// Rows and histograms of many steps.
fn log_all(sink: &mut WandbSink, steps: std::ops::Range<u64>) {
    for step in steps {
        log(sink, step, step as f64);
        log_histogram(sink, step);
    }
}

fn alert(sink: &mut WandbSink, step: u64, kind: &str) {
    sink.alert(&Alert { step, level: AlertLevel::ERROR, kind: kind.into(), text: "something".into() })
        .unwrap();
}

/// A number of a row.
fn number(value: &Value) -> f64 {
    json::number(value).unwrap_or_else(|| panic!("{value} is no number"))
}

/// A row's step.
fn step_of(row: &Value) -> u64 {
    number(&row["_step"]) as u64
}

/// Compares rows with the logged ones: steps 0 to `steps` once each, every value bit-identical.
fn assert_rows(rows: &[Value], steps: u64) {
    let found: Vec<u64> = rows.iter().map(step_of).collect();
    assert_eq!(found, (0..steps).collect::<Vec<_>>(), "each step once");
    let (mut runtime, mut timestamp) = (0.0, 0.0);
    for (row, step) in rows.iter().zip(0..) {
        for (index, name) in NAMES.iter().enumerate() {
            let (found, expected) = (number(&row[*name]), value(step, index as u64));
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "step {step} {name}: {found} for {expected}");
        }
        let histogram = &row["weights/hist/x"];
        assert_eq!(histogram.is_object(), step.is_multiple_of(10), "step {step}");
        if histogram.is_object() {
            assert_eq!(histogram["values"], serde_json::json!([format!("{step}.0"), "3.0"]));
        }
        assert!(number(&row["_runtime"]) >= runtime && number(&row["_timestamp"]) >= timestamp, "{row}");
        (runtime, timestamp) = (number(&row["_runtime"]), number(&row["_timestamp"]));
    }
}

/// Rows as text, as values.
fn parsed(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| json::parse(line).unwrap()).collect()
}

/// Every file below a folder, as one text.
fn everything(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            text += &everything(&entry.path());
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
        }
    }
    text
}
