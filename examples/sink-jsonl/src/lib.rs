//! A sink in one source file: `metrics.jsonl` in the run folder, one JSON object a step, and `histograms.jsonl`, one a
//! distribution.
//!
//! A missing metric is a missing key; NaN and infinities, which JSON lacks, become strings. Writes go straight to
//! the file, so a row is there when `log` returns. A bigger example is `plugins/sinks/csv`.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use altgrad_plugin_api::{
    Config, Descriptor, ErrorKind, Histogram, Metric, PluginError, RunInfo, RunOutcome, Sink,
};
use serde_json::{Map, Value, json};

/// The files of an open run.
#[derive(Debug)]
pub struct JsonLines {
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    metrics: File,
    histograms: File,
}

impl JsonLines {
    fn files(&mut self) -> Result<&mut Files, PluginError> {
        self.files.as_mut().ok_or_else(|| PluginError::new(ErrorKind::OTHER, "jsonl is not open"))
    }
}

/// Begins a file of the run folder; a resumed run keeps the lines of steps before `resume_step`.
fn begin(path: &Path, resume_step: Option<u64>) -> Result<File, PluginError> {
    let mut kept = String::new();
    if let Some(resume_step) = resume_step
        && path.exists()
    {
        let text = fs::read_to_string(path)?;
        kept.extend(text.split_inclusive('\n').filter(|line| is_before(line, resume_step)));
    }
    let mut file = File::create(path)?;
    file.write_all(kept.as_bytes())?;
    Ok(file)
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
        Ok(Self { files: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let begin = |name| begin(&Path::new(run.folder.as_str()).join(name), run.resume_step.into_option());
        self.files = Some(Files { metrics: begin("metrics.jsonl")?, histograms: begin("histograms.jsonl")? });
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let file = &mut self.files()?.metrics;
        let mut row = Map::from_iter([("step".to_string(), Value::from(step))]);
        row.extend(metrics.iter().map(|metric| (metric.name.name.to_string(), value(metric.value))));
        Ok(writeln!(file, "{}", Value::Object(row))?)
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        let Histogram { name, edges, counts } = histogram;
        let line = json!({
            "step": step,
            "name": name.as_str(),
            "edges": edges.as_slice(),
            "counts": counts.as_slice(),
        });
        Ok(writeln!(self.files()?.histograms, "{line}")?)
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.files = None;
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
            state: [].as_slice().into(),
        })
        .unwrap();
        for &(step, name, value) in rows {
            let name = MetricName { name: name.into(), timing: false };
            sink.log(step, &[Metric { name, value }]).unwrap();
        }
        for &(step, name, _) in rows {
            let (edges, counts) = ([0.0, 0.5, 1.0], [3, step]);
            let (edges, counts) = (edges.as_slice().into(), counts.as_slice().into());
            sink.histogram(step, &Histogram { name: name.into(), edges, counts }).unwrap();
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
        let histograms = fs::read_to_string(folder.path().join("histograms.jsonl")).unwrap();
        let last = r#"{"counts":[3,1],"edges":[0.0,0.5,1.0],"name":"a","step":1}"#;
        assert_eq!(histograms.lines().collect::<Vec<_>>()[1..], [last]);
    }
}
