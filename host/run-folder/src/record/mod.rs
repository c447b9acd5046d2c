//! A run's status for other programs: the types of `run.json`, of its progress lines and of `sweep.json`.
//!
//! The engine writes them; sweeps and reports read them. This module does not depend on tensors.

mod differences;
mod progress;
mod run;
mod sinks;
mod sweep;

pub use differences::{Difference, differences, dotted_values, shown};
pub use progress::{Failure, Progress};
pub use run::{
    CastSwitch, Environment, EvaluationKind, Gpu, KernelFile, Library, Resume, RunRecord, RunStatus,
};
pub use sinks::SinkCounts;
pub use sweep::{ComparisonChoice, SWEEP_RESULT, SweepRecord};
