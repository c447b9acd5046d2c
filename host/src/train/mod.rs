//! Training: the step loop and the phases it is made of.
//!
//! [`mod@run`] is the loop and [`mod@step`] a step, in time order; [`status`] says what a run came to; [`trainer`] computes
//! losses, gradients and updates and decides nothing; [`reading`], [`schedule`], [`clip`] and [`update`] are the phases,
//! `services` what optimizers may ask for; [`outlets`] is where a run's rows and
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
mod services;
mod state;
pub mod status;
pub mod step;
pub mod trainer;
pub mod update;
#[cfg(feature = "gpu")]
mod update_device;
#[cfg(feature = "gpu")]
mod update_op;

pub use run::run;
pub use trainer::Trainer;
