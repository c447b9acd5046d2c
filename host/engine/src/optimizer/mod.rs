//! The optimizer: instances of a plugin, the states they keep for each parameter, and the update of all parameters.
//!
//! `groups` assigns an instance to each parameter and a type to its states (`stored_state`, `states`); `update` passes
//! parameters in main memory, `services` computes an optimizer's matrix operations on the parameter's device, and
//! `device` runs an optimizer's own kernels on a GPU. [`UpdateSubscriber`] receives the updates.

mod buffers;
pub mod code_storage;
#[cfg(feature = "gpu")]
mod device;
#[cfg(feature = "gpu")]
pub mod device_op;
#[cfg(feature = "gpu")]
mod device_run;
mod factors;
#[cfg(feature = "gpu")]
pub mod flat_group;
mod groups;
mod random_bits;
pub mod range_expansion;
mod services;
mod shared_states;
mod states;
pub mod stored_state;
mod subscriber;
mod update;

pub use buffers::OptimizerBuffer;
pub use groups::OptimizerGroups;
#[cfg(feature = "gpu")]
pub use subscriber::DeviceUpdate;
pub use subscriber::{UpdateEvent, UpdateSubscriber, UpdatedValues, Wanted};
pub use update::OptimizerState;
pub(crate) use update::round_to_grid;
