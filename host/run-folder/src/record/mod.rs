//! A run's status for other programs: the types of `run.json` and of its progress lines.
//!
//! The engine writes them; sweeps and reports read them. This module does not depend on tensors.

mod comparison;
mod differences;
mod progress;
mod run;
mod sinks;

pub use comparison::{ComparisonChoice, SWEEP_RESULT, labels_of_sweep};
pub use differences::{Difference, differences, dotted_values};
pub use progress::{Failure, Progress};
pub use run::{CastSwitch, Environment, EvaluationKind, Library, Resume, RunRecord, RunStatus};
pub use sinks::SinkCounts;
