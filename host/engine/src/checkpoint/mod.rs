//! Checkpoints: a run's whole state on disk, and the resume from it, bit-identical to an uninterrupted run.
//!
//! [`snapshot`] takes the state between two steps, [`checkpointer`] decides when it is written, and `write` and
//! `retention` write it atomically. [`read`] validates every file, `sanity` refuses impossible values, [`identity`]
//! compares a checkpoint with the run, and [`resume`] restores the state. [`layout`] has the names, and [`state`] the
//! file of everything that is not a tensor; `weights_state` is the part of it that final weights keep. README.md of
//! this folder documents both.

pub mod checkpointer;
pub mod identity;
pub mod layout;
pub mod read;
pub mod resume;
mod retention;
mod sanity;
pub mod snapshot;
pub mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod weights_state;
mod write;

pub use checkpointer::Checkpointer;
pub use identity::RunIdentity;
pub use layout::CheckpointKind;
pub use resume::{Chosen, Start};
pub use snapshot::{Snapshot, StateTensors};
pub use weights_state::WeightsState;
