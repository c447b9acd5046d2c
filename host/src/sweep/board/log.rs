//! What a run's process printed: its last step, and why it failed.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// Bytes at the end that are looked at.
const TAIL: u64 = 8192;

/// A step, as `cli::progress` prints it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sweep) struct Step {
    pub done: u64,
    pub loss: String,
}

/// The last step printed behind `from` bytes of the log.
pub(in crate::sweep) fn last_step(log: &Path, from: u64) -> Option<Step> {
    tail(log, from).lines().rev().find_map(parse)
}

/// `step 12/300  loss 2.3456  ...`
fn parse(line: &str) -> Option<Step> {
    let mut words = line.strip_prefix("step ")?.split_whitespace();
    let done = words.next()?.split('/').next()?.parse().ok()?;
    let loss = words.nth(1)?.to_string();
    Some(Step { done, loss })
}

/// The last error printed behind `from` bytes of the log, in one line: what, where, what to do.
pub(in crate::sweep) fn error(log: &Path, from: u64) -> Option<String> {
    let text = tail(log, from);
    let mut lines = text.lines().rev().collect::<Vec<_>>().into_iter();
    let mut said: Vec<&str> = Vec::new();
    lines.find_map(|line| {
        said.push(line);
        line.strip_prefix("error: ")
    })?;
    let details = said.iter().rev().skip(1).filter_map(|line| {
        let (place, hint) = (line.strip_prefix("  --> "), line.strip_prefix("hint: "));
        place.or(hint).map(str::to_string)
    });
    let message = said.last()?.strip_prefix("error: ")?.to_string();
    Some([message].into_iter().chain(details).collect::<Vec<_>>().join("; "))
}

fn tail(log: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let start = from.max(file.metadata()?.len().saturating_sub(TAIL));
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // A log that cannot be read says nothing.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_and_the_last_error_count() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        let old = "error: an old one\nstep 290/300  loss 1.0000  9 tokens/s\n";
        let new = "step 1/300  loss 5.5000  9 tokens/s  ETA 9 s\nstep 12/300  loss 2.3456  9 tokens/s  ETA 9 s\nstep 1";
        std::fs::write(&log, format!("{old}{new}")).unwrap();
        let from = old.len() as u64;
        assert_eq!(last_step(&log, from), Some(Step { done: 12, loss: "2.3456".into() }));
        assert_eq!(error(&log, from), None);
        std::fs::write(&log, format!("{old}error: lost\n  --> step 7\nhint: lower it\nnoise\n")).unwrap();
        assert_eq!(error(&log, from).as_deref(), Some("lost; step 7; lower it"));
        assert_eq!(last_step(&folder.path().join("gone"), 0), None);
    }
}
