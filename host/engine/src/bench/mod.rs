//! Time per training step by precision, format and metrics, measured in one process.
//!
//! [`steps`] alternates between cases step by step, so that other load of the machine affects all equally;
//! [`checkpoints`] times one case with checkpoints and without. A case is a run file like any other, on random tokens:
//! times do not depend on them. [`kernels`] counts and times the kernels of a step, [`machine`] measures the limits of
//! the device, and [`other_trainer`] runs another program in turn.

mod case;
pub mod checkpoints;
pub mod kernels;
pub mod machine;
pub mod other_trainer;
pub mod report;
mod statistics;
mod step;
pub mod steps;
pub mod trial;

pub use case::{BenchModel, BenchSpec};
pub use report::BenchReport;
