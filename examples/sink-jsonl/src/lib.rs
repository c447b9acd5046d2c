//! A sink in one file: `metrics.jsonl` in the run folder, one JSON object a step.
//!
//! A missing metric is a missing key; NaN and infinities, which JSON lacks, become strings. Writes go straight to
//! the file, so a row is there when `log` returns. A bigger example is `plugins/sinks/csv`.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use altgrad_plugin_api::{Config, Descriptor, ErrorKind, Metric, PluginError, RunInfo, RunOutcome, Sink};
use serde_json::{Map, Value};

/// The file of an open run.
#[derive(Debug)]
pub struct JsonLines {
    file: Option<File>,
}

/// Whether a line of an interrupted run belongs to a step before `resume_step`; a torn line belongs to none.
fn is_before(line: &str, resume_step: u64) -> bool {
    let row: Option<Value> = serde_json::from_str(line).ok();
    row.and_then(|row| row.get("step")?.as_u64()).is_some_and(|step| step < resume_step)
}

/// A JSON number, or its name where JSON has none: a NaN that was computed must not look like a missing value.
fn value(value: f64) -> Value {
    if value.is_finite() { Value::from(value) } else { Value::from(value.to_string()) }
}

impl Sink for JsonLines {
    fn descriptor() -> Descriptor {
        Descriptor::sink("jsonl", env!("CARGO_PKG_VERSION"), "One JSON object a step in metrics.jsonl")
    }

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { file: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let path = Path::new(run.folder.as_str()).join("metrics.jsonl");
        let mut kept = String::new();
        if let Some(resume_step) = run.resume_step.into_option()
            && path.exists()
        {
            let text = fs::read_to_string(&path)?;
            kept.extend(text.split_inclusive('\n').filter(|line| is_before(line, resume_step)));
        }
        let mut file = File::create(path)?;
        file.write_all(kept.as_bytes())?;
        self.file = Some(file);
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let file =
            self.file.as_mut().ok_or_else(|| PluginError::new(ErrorKind::OTHER, "jsonl is not open"))?;
        let mut row = Map::from_iter([("step".to_string(), Value::from(step))]);
        row.extend(metrics.iter().map(|metric| (metric.name.name.to_string(), value(metric.value))));
        Ok(writeln!(file, "{}", Value::Object(row))?)
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.file = None;
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(sink JsonLines);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::MetricName;

    use super::*;

    fn write(folder: &Path, resume_step: Option<u64>, rows: &[(u64, &str, f64)]) -> String {
        let mut sink = JsonLines::new(&Config::default()).unwrap();
        sink.open(&RunInfo {
            name: "run".into(),
            folder: folder.to_str().unwrap().into(),
            config_toml: "".into(),
            metrics: [].as_slice().into(),
            resume_step: resume_step.into(),
        })
        .unwrap();
        for &(step, name, value) in rows {
            let name = MetricName { name: name.into(), timing: false };
            sink.log(step, &[Metric { name, value }]).unwrap();
        }
        fs::read_to_string(folder.join("metrics.jsonl")).unwrap()
    }

    #[test]
    fn each_row_is_an_object_and_resuming_repeats_none() {
        let folder = tempfile::tempdir().unwrap();
        let text = write(folder.path(), None, &[(0, "a\"b", 0.1), (1, "a", f64::NAN), (2, "a", 1e300)]);
        assert_eq!(
            text,
            "{\"a\\\"b\":0.1,\"step\":0}\n{\"a\":\"NaN\",\"step\":1}\n{\"a\":1e+300,\"step\":2}\n"
        );
        let text = write(folder.path(), Some(1), &[(1, "a", 2.0)]);
        assert_eq!(text, "{\"a\\\"b\":0.1,\"step\":0}\n{\"a\":2.0,\"step\":1}\n");
    }
}
