//! `altgrad-host`: trains transformers in exotic 8-bit number formats.
//!
//! The way of the data: TOML -> [`config::RunConfig`] -> plugins loaded -> [`plan`] -> [`data`] -> [`model`] ->
//! step ([`train`]) -> [`metrics`] -> [`sinks`] -> run folder. `ARCHITECTURE.md` draws the rooms.
//!
//! Invariants: formats, optimizers and sinks are only ever loaded from shared libraries; nothing is written before
//! [`plan`] has accepted the run; all `unsafe` of this crate is in [`raw`].

#![deny(unsafe_code)]

pub mod cli;
pub mod config;
pub mod data;
pub mod device;
pub mod diagnostic;
pub mod metrics;
pub mod model;
pub mod plan;
pub mod plugins;
pub mod quant;
pub mod random;
#[allow(unsafe_code)]
pub mod raw;
pub mod run_folder;
pub mod sinks;
pub mod train;
