//! A sink in one source file: in the run folder `metrics.jsonl`, one JSON object a step, `histograms.jsonl`, one a
//! distribution, and `alerts.jsonl`, one an alert.
//!
//! A missing metric is a missing key; NaN and infinities, which JSON lacks, become strings. Writes go straight to
//! the file, so a row is there when `log` returns. Resuming cuts the files where the steps begin that come again, which
//! takes a torn last line along. A bigger example is `plugins/sinks/csv`; `altgrad-host plugins check` checks both.

use std::{
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use altgrad_plugin_api::{
    Alert, Config, Descriptor, ErrorKind, Histogram, Metric, PluginError, RunInfo, RunOutcome, Sink,
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
    alerts: File,
}

impl JsonLines {
    fn files(&mut self) -> Result<&mut Files, PluginError> {
        self.files.as_mut().ok_or_else(|| PluginError::new(ErrorKind::OTHER, "jsonl is not open"))
    }
}

/// Begins a file of the run folder; a resumed run keeps the lines of steps before `resume_step`.
fn begin(path: &Path, resume_step: Option<u64>) -> Result<File, PluginError> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let mut kept = 0;
    if let Some(resume_step) = resume_step {
        let bytes = fs::read(path)?;
        let lines =
            bytes.split_inclusive(|&byte| byte == b'\n').take_while(|line| is_before(line, resume_step));
        kept = lines.map(|line| line.len() as u64).sum();
    }
    // Cut in place: after a crash at this point the file still has its content.
    file.set_len(kept)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// True if a line of an interrupted run belongs to a step before `resume_step`; a torn line belongs to none.
fn is_before(line: &[u8], resume_step: u64) -> bool {
    let row: Option<Value> = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok());
    row.and_then(|row| row.get("step")?.as_u64()).is_some_and(|step| step < resume_step)
}

/// A JSON number, or its name where JSON has none: a NaN that was computed must not look like a missing value.
fn value(value: f64) -> Value {
    if value.is_finite() { Value::from(value) } else { Value::from(value.to_string()) }
}

/// One line, in one call: a process that is killed leaves all of it or a torn end, never two mixed.
fn write(file: &mut File, line: &Value) -> Result<(), PluginError> {
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}

impl Sink for JsonLines {
    const DESCRIPTOR: Descriptor =
        Descriptor::sink("jsonl", env!("CARGO_PKG_VERSION"), "One JSON object a step in metrics.jsonl");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { files: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let begin = |name| begin(&Path::new(run.folder.as_str()).join(name), run.resume_step.into_option());
        self.files = Some(Files {
            metrics: begin("metrics.jsonl")?,
            histograms: begin("histograms.jsonl")?,
            alerts: begin("alerts.jsonl")?,
        });
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let file = &mut self.files()?.metrics;
        let mut row = Map::from_iter([("step".to_string(), Value::from(step))]);
        row.extend(metrics.iter().map(|metric| (metric.name.name.to_string(), value(metric.value))));
        write(file, &Value::Object(row))
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        let Histogram { name, edges, counts } = histogram;
        let edges: Vec<Value> = edges.iter().map(|&edge| value(edge)).collect();
        let line =
            json!({ "step": step, "name": name.as_str(), "edges": edges, "counts": counts.as_slice() });
        write(&mut self.files()?.histograms, &line)
    }

    fn alert(&mut self, alert: &Alert<'_>) -> Result<(), PluginError> {
        let level = alert.level.name();
        let (kind, text) = (alert.kind.as_str(), alert.text.as_str());
        let line = json!({ "step": alert.step, "level": level, "kind": kind, "text": text });
        write(&mut self.files()?.alerts, &line)
    }

    /// A checkpoint is about to rely on the files, so their content must be on the disk. Resuming needs nothing else,
    /// so the state is empty; a sink with counters, buffers or a session returns them here.
    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        let Files { metrics, histograms, alerts } = self.files()?;
        [metrics, histograms, alerts].into_iter().try_for_each(|file| file.sync_data())?;
        Ok(Vec::new())
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

    #[test]
    fn a_file_torn_at_any_byte_resumes() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<(u64, &str, f64)> = (0..4).map(|step| (step, "a\n\"ä🧪", step as f64)).collect();
        let whole = write(folder.path(), None, &rows);
        let kept: usize = whole.split_inclusive('\n').take(2).map(str::len).sum();
        for end in kept..=whole.len() {
            fs::write(folder.path().join("metrics.jsonl"), &whole.as_bytes()[..end]).unwrap();
            assert_eq!(write(folder.path(), Some(2), &rows[2..]), whole, "cut to {end} bytes");
        }
    }
}
