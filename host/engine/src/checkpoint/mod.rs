//! Checkpoints: a run's whole state on disk, and going on from it as if nothing had happened.
//!
//! [`snapshot`] is what is taken between two steps, [`checkpointer`] when and by whom it is written, `write` and `retention` how, so
//! that no half-written one is ever seen. [`read`] believes nothing, `sanity` knows which values no run has, [`identity`] says whose a checkpoint is, and [`resume`]
//! puts everything back. [`layout`] has the names, [`state`] the file of all that is no tensor; README.md of this folder
//! documents both for people and other programs.

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
mod write;

pub use checkpointer::Checkpointer;
pub use identity::RunIdentity;
pub use layout::CheckpointKind;
pub use resume::{Chosen, Start};
pub use snapshot::{Snapshot, StateTensors};
