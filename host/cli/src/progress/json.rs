//! Progress as JSON, one object per line on stdout: [`Progress`] has the fields. Messages go to stderr.

use std::time::{Duration, Instant};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print};
use altgrad_engine::train::{ProgressListener, status::RunReport};
use altgrad_run_folder::record::{Failure, Progress, RunStatus};

/// Time between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Writes progress lines.
#[derive(Debug, Default)]
pub(crate) struct JsonProgress {
    quiet: bool,
    written: Option<Instant>,
    /// The newest step's.
    last: Progress,
}

impl JsonProgress {
    /// Messages of lesser weight are not shown if `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, ..Self::default() }
    }

    /// The line of a run that has ended.
    pub fn ended(self, result: Result<&RunReport, &Diagnostic>) {
        let line = match result {
            Ok(report) => Progress {
                status: if report.interrupted { RunStatus::Interrupted } else { RunStatus::Completed },
                step: report.steps,
                validation_loss: report.last_val.map(|last| last.loss),
                validation_step: report.last_val.map(|last| last.step),
                error: report.faults.last().map(Failure::from),
                ..self.last
            },
            Err(error) => {
                Progress { status: RunStatus::from(error), error: Some(Failure::from(error)), ..self.last }
            }
        };
        write(&line);
    }
}

/// A reader that closes the pipe does not end the run.
fn write(progress: &Progress) {
    print::output(format!("{}\n", progress.to_line()).as_bytes());
}

impl ProgressListener for JsonProgress {
    fn step(&mut self, progress: &Progress) {
        self.last = progress.clone();
        let due = self.written.is_none_or(|written| written.elapsed() >= LINE_INTERVAL);
        if due || progress.step == progress.steps {
            self.written = Some(Instant::now());
            write(progress);
        }
    }

    fn say(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn mention(&mut self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    fn finish(&mut self) {}
}
