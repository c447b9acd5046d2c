//! Training: the step loop and the phases it is made of.
//!
//! [`mod@run`] is the loop and [`mod@step`] a step, in time order; [`trainer`] computes losses, gradients and updates and
//! decides nothing; [`reading`], [`schedule`], [`clip`] and [`update`] are the phases; [`outlets`] is where a run's rows and
//! events go. [`provenance`] finds where a step stopped being finite. [`replay`] drives the same trainer along a recorded
//! trajectory, [`lockstep`] two runs beside each other.

pub mod clip;
pub mod interrupt;
pub mod lockstep;
pub mod outlets;
pub mod provenance;
pub mod reading;
pub mod replay;
pub mod run;
pub mod schedule;
pub mod step;
pub mod trainer;
pub mod update;
#[cfg(feature = "gpu")]
mod update_device;
#[cfg(feature = "gpu")]
mod update_op;

pub use run::run;
pub use trainer::Trainer;
