//! Training: the step loop and the phases it is made of.
//!
//! [`mod@run`] is the loop, in time order; [`trainer`] computes losses, gradients and updates and decides nothing;
//! [`schedule`], [`clip`] and [`update`] are the phases. [`replay`] drives the same trainer along a recorded trajectory.

pub mod clip;
pub mod interrupt;
pub mod replay;
pub mod run;
pub mod schedule;
pub mod trainer;
pub mod update;

pub use run::run;
pub use trainer::Trainer;
