//! Training: the step loop and the phases it is made of.
//!
//! [`mod@run`] is the loop over [`crate::step`], between `open` and `close`. [`status`] is the outcome of a run,
//! [`run_logger`] writes its rows and events, and [`progress`] tells its progress.

mod alerts;
mod cast_switches;
mod close;
mod non_finite;
mod open;
pub mod progress;
pub mod run;
mod run_checkpoints;
pub mod run_logger;
pub mod status;
mod step_state;

pub use progress::ProgressListener;
pub use run::{RunOptions, run};
