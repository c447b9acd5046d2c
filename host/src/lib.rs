//! `altgrad-host`: trains transformers in exotic 8-bit number formats.
//!
//! The way of the data: TOML -> [`config::RunConfig`] -> plugins loaded -> [`plan`] -> [`data`] -> [`model`] ->
//! step ([`train`]) -> [`metrics`] -> [`sinks`] -> run folder. `ARCHITECTURE.md` draws the rooms.
//!
//! Invariants: formats, optimizers and sinks are only ever loaded from shared libraries; nothing is written before
//! [`plan`] has accepted the run; all `unsafe` of this crate is in the module `raw`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

#[macro_use]
mod out;

pub mod alerts;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod cpu_ops;
pub mod data;
pub mod device;
pub mod diagnostic;
pub mod events;
pub mod files;
#[cfg(feature = "gpu")]
mod kernel_text;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod plan;
pub mod plugins;
pub mod quant;
pub mod random;
#[allow(unsafe_code)]
mod raw;
pub mod read_back;
pub mod report;
pub mod run_folder;
pub mod sample;
pub mod saved;
pub mod sinks;
pub mod sweep;
pub mod tensor;
pub mod trace;
pub mod train;
