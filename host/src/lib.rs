//! `altgrad-host`: trains transformers in exotic 8-bit number formats.
//!
//! The way of the data: TOML -> [`config::RunConfig`] -> plugins loaded -> [`plan`] -> [`data`] -> [`model`] ->
//! step ([`train`]) -> [`metrics`] -> [`sinks`] -> run folder. `ARCHITECTURE.md` draws the rooms.
//!
//! Invariants: formats, optimizers and sinks are only ever loaded from shared libraries; nothing is written before
//! [`plan`] has accepted the run; all `unsafe` of this crate is in the module `raw`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

pub use altgrad_base::{diagnostic, files, random};
pub use altgrad_config as config;
pub use altgrad_data as data;
pub use altgrad_loader as plugins;
pub use altgrad_report as report;
pub use altgrad_run_folder::events;
/// The run folder, and what its status file says of the host.
pub mod run_folder {
    pub use crate::environment::environment;
    pub use altgrad_run_folder::folder::*;
}

pub mod alerts;
pub mod checkpoint;
pub mod cli;
pub mod device;
mod environment;
pub mod fused;
#[cfg(feature = "gpu")]
mod kernel_text;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod plan;
pub mod quant;
#[allow(unsafe_code)]
mod raw;
pub mod read_back;
pub mod sample;
pub mod saved;
pub mod sinks;
pub mod sweep;
pub mod trace;
pub mod train;
