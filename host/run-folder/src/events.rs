//! Events of a run, one JSON line each in the run folder's `events.jsonl`.
//!
//! Events are alerts, the best evaluations and the end of the run. A line is written before the next step begins, so it
//! survives a crash. A file that cannot be written does not end the run: the first fault is kept for the report.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_plugin_api::AlertLevel;
use serde::{Deserialize, Serialize, Serializer};

/// The file's name.
pub const EVENTS: &str = "events.jsonl";

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The step it belongs to.
    pub step: u64,
    /// The urgency.
    #[serde(serialize_with = "level_name")]
    pub level: AlertLevel,
    /// A stable short name: `overflow`.
    pub kind: &'static str,
    /// One sentence.
    pub text: String,
    /// The place: a metric's name with its layer, or the first place that is not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The value at the place; `null` in the file if it is not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

impl Event {
    /// An event without place and value.
    pub fn new(step: u64, level: AlertLevel, kind: &'static str, text: impl Into<String>) -> Self {
        Self { step, level, kind, text: text.into(), place: None, value: None }
    }
}

fn level_name<S: Serializer>(level: &AlertLevel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.name())
}

/// Seconds since 1970, if the machine's clock is set.
#[must_use]
pub fn unix_s() -> Option<u64> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs()).ok()
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    unix_s: Option<u64>,
    #[serde(flatten)]
    event: &'a Event,
}

/// The file of a run's events.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    /// `None` after the first fault, because no line may follow a partial one.
    file: Option<File>,
    fault: Option<Diagnostic>,
}

impl EventLog {
    /// Opens the file, to append to it.
    #[must_use]
    pub fn open(path: PathBuf) -> Self {
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(file) => Self { path, file: Some(file), fault: None },
            Err(error) => Self { fault: Some(fault(&path, &error)), path, file: None },
        }
    }

    /// Opens the file of a run that resumes at `step`: events of that step and later ones are repeated.
    #[must_use]
    pub fn resume(path: PathBuf, step: u64) -> Self {
        match cut(&path, step) {
            Ok(()) => Self::open(path),
            Err(error) => Self { fault: Some(fault(&path, &error)), path, file: None },
        }
    }

    /// Appends an event.
    pub fn write(&mut self, event: &Event) {
        let Some(file) = &mut self.file else { return };
        let line = serde_json::to_string(&Line { unix_s: unix_s(), event });
        let written =
            line.map_err(Into::into).and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            self.fault = Some(fault(&self.path, &error));
            self.file = None;
        }
    }

    /// Makes the events so far durable: a checkpoint is not to outlive those before it.
    pub fn sync(&mut self) {
        if let Some(Err(error)) = self.file.as_ref().map(File::sync_data) {
            self.fault.get_or_insert(fault(&self.path, &error));
        }
    }

    /// The reason why events are missing from the file; `None` if none are.
    #[must_use]
    pub fn finish(self) -> Option<Diagnostic> {
        self.fault
    }
}

/// The places of the events of a kind in a run's file; none without a file.
///
/// # Errors
/// The file cannot be read.
pub fn places(path: &Path, kind: &str) -> std::io::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Placed {
        kind: String,
        place: String,
    }
    let bytes = files::read_if_exists(path)?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    let placed = lines.filter_map(|line| serde_json::from_slice::<Placed>(line).ok());
    Ok(placed.filter(|line| line.kind == kind).map(|line| line.place).collect())
}

/// Keeps only the complete lines of earlier steps.
fn cut(path: &Path, step: u64) -> std::io::Result<()> {
    #[derive(Deserialize)]
    struct Dated {
        step: u64,
    }
    let Some(bytes) = files::read_if_exists(path)? else { return Ok(()) };
    let earlier = |line: &&[u8]| {
        line.ends_with(b"\n") && serde_json::from_slice::<Dated>(line).is_ok_and(|line| line.step < step)
    };
    let kept: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').filter(earlier).collect();
    files::write(path, &kept.concat())
}

fn fault(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::run(format!("events are missing from their file ({error})"))
        .at(path.display())
        .hint("is the disk full, or is the folder deleted or read-only?")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::new(7, AlertLevel::WARN, "overflow", "a \"quoted\"\nline")
    }

    #[test]
    fn an_event_is_a_json_line_and_a_file_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS);
        for value in [0.25, f64::INFINITY] {
            let mut log = EventLog::open(path.clone());
            log.write(&Event { place: Some("quant/overflow_rate".into()), value: Some(value), ..event() });
            log.write(&event());
            assert_eq!(log.finish(), None);
        }
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["step"], 7);
        assert_eq!(lines[0]["level"], "warn");
        assert_eq!(lines[0]["kind"], "overflow");
        assert_eq!(lines[0]["text"], "a \"quoted\"\nline");
        assert_eq!(lines[0]["place"], "quant/overflow_rate");
        assert_eq!(lines[0]["value"], 0.25);
        assert!(lines[0]["unix_s"].as_u64().unwrap() > 1_600_000_000);
        assert!(lines[1].get("place").is_none() && lines[1].get("value").is_none());
        assert!(lines[2]["value"].is_null());
    }

    #[test]
    fn a_run_that_goes_on_keeps_whole_lines_of_earlier_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS);
        std::fs::write(&path, "{\"step\":1}\n{\"step\":7}\nnoise\n{\"step\":2}\n{\"step\":3").unwrap();
        EventLog::resume(path.clone(), 7).write(&event());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"step\":1}\n{\"step\":2}\n{\"unix_s\":"), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(EventLog::resume(folder.path().join("new"), 7).finish(), None);
    }

    #[test]
    fn places_are_those_of_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS);
        let found = || places(&path, "overflow");
        assert_eq!(found().unwrap(), [""; 0], "there is no file");
        let mut log = EventLog::open(path.clone());
        log.write(&event());
        log.write(&Event { place: Some("h.0".into()), ..event() });
        log.write(&Event { place: Some("h.1".into()), kind: "other", ..event() });
        log.sync();
        assert_eq!(log.finish(), None);
        let torn = b"{\"kind\":\"overflow\",\"place\":\"h.2";
        std::fs::write(&path, [&std::fs::read(&path).unwrap()[..], &torn[..]].concat()).unwrap();
        assert_eq!(found().unwrap(), ["h.0"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(found().is_err());
    }

    #[test]
    fn a_file_that_cannot_be_opened_or_written_is_one_fault() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = EventLog::open(folder.path().to_path_buf());
        log.write(&event());
        assert!(log.finish().unwrap().message.starts_with("events are missing from their file"));
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut log = EventLog::open(full.to_path_buf());
            log.write(&event());
            log.write(&event());
            assert_eq!(log.finish().unwrap().place.as_deref(), Some("/dev/full"));
        }
    }
}
