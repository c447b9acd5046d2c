//! The optimizer: instances of a plugin, the states they keep for each parameter, and the update of all parameters.
//!
//! `groups` assigns an instance to each parameter and a type to its states (`stored_state`, `states`); `update` passes parameters
//! in main memory, `services` computes an optimizer's matrix operations on the parameter's device, and `device` runs an
//! optimizer's own kernels on a GPU, whose effects `device_counts` reads.

pub mod code_storage;
#[cfg(feature = "gpu")]
mod device;
#[cfg(feature = "gpu")]
mod device_counts;
#[cfg(feature = "gpu")]
mod device_op;
#[cfg(feature = "gpu")]
mod device_run;
mod groups;
pub mod range_expansion;
mod services;
mod states;
pub mod stored_state;
mod update;

pub use groups::OptimizerGroups;
pub use states::OptimizerBuffer;
pub use update::OptimizerState;
pub(crate) use update::round_to_grid;
