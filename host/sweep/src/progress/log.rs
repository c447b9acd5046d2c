//! The log of a run's process: its last step, and the reason of its failure.
//!
//! The log holds the process's output, [`Progress`] lines among it; everything else is for people.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use altgrad_run_folder::record::Progress;

/// Bytes at the end that are looked at.
const TAIL: u64 = 8192;

/// The newest progress with a step after `from` bytes of the log.
pub(crate) fn last_step(log: &Path, from: u64) -> Option<Progress> {
    tail(log, from).lines().rev().filter_map(Progress::from_line).find(|progress| progress.step > 0)
}

/// The last error after `from` bytes of the log, in one line: the error, its place, the hint.
pub(crate) fn error(log: &Path, from: u64) -> Option<String> {
    let text = tail(log, from);
    let error = text.lines().rev().filter_map(Progress::from_line).find_map(|progress| progress.error)?;
    Some(error.to_string())
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
    // A log that cannot be read counts as empty.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use altgrad_base::diagnostic::Diagnostic;
    use altgrad_run_folder::record::{Failure, RunStatus};

    fn step(step: u64, loss: f64) -> String {
        Progress { step, steps: 300, loss: Some(loss), ..Progress::default() }.to_line()
    }

    #[test]
    fn the_last_step_and_the_last_error_count() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        let failed = |message: &str| {
            let error = Failure::from(&Diagnostic::run(message).at("step 7").hint("lower it"));
            Progress { status: RunStatus::Failed, error: Some(error), ..Progress::default() }.to_line()
        };
        let old = format!("{}\n{}\n", failed("an old one"), step(290, 1.0));
        let new = format!("alert at step 1\n{}\n{}\n{{\"status\"", step(1, 5.5), step(12, 2.3456));
        std::fs::write(&log, format!("{old}{new}")).unwrap();
        let from = old.len() as u64;
        let last = last_step(&log, from).unwrap();
        assert_eq!((last.step, last.loss), (12, Some(2.3456)));
        assert_eq!(error(&log, from), None);
        std::fs::write(&log, format!("{old}{}\nerror: lost\nnoise\n", failed("lost"))).unwrap();
        assert_eq!(error(&log, from).as_deref(), Some("lost; step 7; lower it"));
        assert_eq!(last_step(&log, from), None);
        assert_eq!(last_step(&folder.path().join("gone"), 0), None);
    }
}
