//! The events of a run, from `events.jsonl`: other lines are left out and counted.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::Path,
};

use altgrad_metrics::alert::AlertKind;
use serde::Deserialize;

/// Events that are kept; a run has some dozens.
const MOST: usize = 4096;
/// Bytes of the longest line that is read.
const LONGEST_LINE: u64 = 1 << 20;

/// One event, as the host writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordedEvent {
    /// The step it belongs to.
    pub step: u64,
    /// `info`, `warn` or `error`.
    pub level: String,
    /// `overflow`.
    pub kind: String,
    /// One sentence.
    pub text: String,
    /// Where.
    #[serde(default)]
    pub place: Option<String>,
    /// The value measured there.
    #[serde(default)]
    pub value: Option<f64>,
}

impl RecordedEvent {
    /// True if a user should inspect it: an alert, or a fault of the run or of a sink.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.level != "info"
    }

    /// True if it is a warning of the run's alerts.
    #[must_use]
    pub fn is_alert(&self) -> bool {
        self.is_warning() && AlertKind::ALL.iter().any(|kind| kind.name() == self.kind)
    }
}

/// Reads the events, and counts the invalid lines. None without a file.
///
/// # Errors
/// One sentence: the file cannot be read.
pub(super) fn read(path: &Path) -> Result<(Vec<RecordedEvent>, u64), String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".into()),
        Ok(_) => {}
    }
    let mut lines = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
    let (mut events, mut damaged, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let read = lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            return Ok((events, damaged));
        }
        // Without its line break it is still being written.
        match serde_json::from_slice::<RecordedEvent>(&line) {
            Ok(event) if events.len() < MOST => events.push(event),
            Ok(_) => {}
            Err(_) if line.ends_with(b"\n") => damaged += 1,
            Err(_) => {}
        }
    }
}
