//! `altgrad-host`: trains transformers in exotic 8-bit number formats.
//!
//! The way of the data: TOML -> [`config::RunConfig`] -> plugins loaded -> [`setup`] -> [`data`] -> [`model`] ->
//! step ([`train`]) -> [`metrics`] -> [`sinks`] -> run folder. `ARCHITECTURE.md` draws the rooms.
//!
//! Invariants: formats, optimizers and sinks are only ever loaded from shared libraries; nothing is written before
//! [`setup`] has accepted the run; all `unsafe` of this crate is in the module `raw`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

pub use altgrad_base::{diagnostic, files, random};
pub use altgrad_config as config;
pub use altgrad_data as data;
pub use altgrad_loader as plugins;
pub use altgrad_report as report;
pub use altgrad_run_folder::{events, folder as run_folder};

pub mod alerts;
pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod cpu_ops;
pub mod debug;
pub mod device;
pub mod interrupt;
#[cfg(feature = "gpu")]
mod kernel_text;
pub mod load_model;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod optimizer;
pub mod quant;
#[allow(unsafe_code)]
mod raw;
pub mod read_back;
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
