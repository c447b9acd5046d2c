//! Progress of a run for other programs: one JSON object per line (`run --progress json`).
//!
//! Lines come after the first step, after the last one, and between them at most once a second. One more line comes
//! when the process ends the run: its `status` is no longer `running`. Unknown fields and numbers that are not finite
//! are `null`.

use altgrad_base::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

use super::run::RunStatus;
/// One line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The run's state, or its end.
    pub status: RunStatus,
    /// Steps done, those before the run was resumed included.
    pub step: u64,
    /// The step at which this process stops; 0 if it failed before its first step.
    pub steps: u64,
    /// Loss of the last step's batch before its update, nats per token.
    pub loss: Option<f64>,
    /// The newest held-out loss, nats per token.
    pub validation_loss: Option<f64>,
    /// The step before whose update it was measured.
    pub validation_step: Option<u64>,
    /// Training tokens per second, evaluation not counted.
    pub tokens_per_s: Option<f64>,
    /// Seconds since the run's start, pauses left out.
    pub elapsed_s: f64,
    /// Seconds in steps, evaluation not counted.
    pub training_s: f64,
    /// The error of a failed run; for other runs, the last fault that did not stop them.
    pub error: Option<Failure>,
}

/// The error of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// The place: a file, a key with its position, a step.
    pub place: Option<String>,
    /// The advice to the user.
    pub hint: Option<String>,
}

impl From<&Diagnostic> for Failure {
    fn from(error: &Diagnostic) -> Self {
        Self { message: error.message.clone(), place: error.place.clone(), hint: error.hint.clone() }
    }
}

/// One line: the error, its place, the hint.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.message)?;
        self.place.iter().chain(&self.hint).try_for_each(|detail| write!(f, "; {detail}"))
    }
}

impl Progress {
    /// The line, without its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a line; `None` if it is not a progress line.
    #[must_use]
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let error = Diagnostic::run("lost").at("step 7").hint("lower it");
        let lines = [
            Progress { step: 12, steps: 300, loss: Some(2.5), ..Progress::default() },
            Progress { status: RunStatus::Failed, error: Some(Failure::from(&error)), ..Progress::default() },
        ];
        for progress in lines {
            let line = progress.to_line();
            assert!(!line.contains('\n'));
            assert_eq!(Progress::from_line(&line), Some(progress));
        }
        assert_eq!(Failure::from(&error).to_string(), "lost; step 7; lower it");
    }

    #[test]
    fn losses_that_are_not_finite_are_null_and_other_lines_are_none() {
        let progress = Progress { loss: Some(f64::NAN), ..Progress::default() };
        assert_eq!(Progress::from_line(&progress.to_line()).unwrap().loss, None);
        for line in ["", "step 12/300  loss 2.3456", "{\"step\": 1}", "{\"status\":\"running\",\"step\":1"] {
            assert_eq!(Progress::from_line(line), None, "{line}");
        }
    }
}
