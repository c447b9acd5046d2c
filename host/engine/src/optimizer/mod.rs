//! The optimizer: instances of a plugin, the states they keep for each parameter, and the update of all parameters.
//!
//! `groups` says which instance updates a parameter and how its states are stored (`stored_state`, `states`); `update` hands over
//! parameters in main memory, `services` computes what an optimizer asks for where the parameter is, and `device` runs an
//! optimizer's own kernels on a GPU.

pub mod code_storage;
#[cfg(feature = "gpu")]
mod device;
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
