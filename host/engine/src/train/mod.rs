//! Training: the step loop and the phases it is made of.
//!
//! [`mod@run`] is the loop, between `open` and `close`, and [`step`] the two halves of a step, each in time order; [`reading`] and
//! [`clip`] are its phases. [`status`] is the outcome of a run, [`run_logger`] writes its rows and events, and [`progress`] tells its
//! progress.

mod alerts;
pub mod cast_switches;
pub mod clip;
mod close;
mod curvature;
mod non_finite;
mod observe;
mod open;
pub mod progress;
pub mod reading;
pub mod run;
mod run_checkpoints;
pub mod run_logger;
pub mod status;
pub mod step;
mod step_state;

pub use progress::ProgressListener;
pub use run::run;
