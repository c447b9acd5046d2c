//! `altgrad-host`: trains transformers in exotic 8-bit number formats.
//!
//! The way of the data: TOML -> [`config::RunConfig`] -> plugins loaded -> [`setup`] -> [`data`] -> [`model`] ->
//! step ([`train`]) -> [`metrics`] -> [`sinks`] -> run folder. `ARCHITECTURE.md` draws the rooms.
//!
//! Invariants: formats, optimizers and sinks are only ever loaded from shared libraries; nothing is written before
//! [`setup`] has accepted the run; all `unsafe` of this crate is in the module `raw`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

#[macro_use]
mod out;

pub mod alerts;
pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod cpu_ops;
pub mod data;
pub mod debug;
pub mod device;
pub mod diagnostic;
pub mod events;
pub mod files;
pub mod interrupt;
#[cfg(feature = "gpu")]
mod kernel_text;
pub mod load_model;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod optimizer;
pub mod plugins;
pub mod quant;
pub mod random;
#[allow(unsafe_code)]
mod raw;
pub mod read_back;
pub mod report;
pub mod run_folder;
pub mod run_record;
pub mod sample;
pub mod setup;
pub mod sinks;
pub mod state;
pub mod sweep;
pub mod tensor;
pub mod tensor_file;
pub mod trace;
pub mod train;
