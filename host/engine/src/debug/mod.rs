//! Tools to debug training: the origin of non-finite values, replay of a recorded trajectory, comparison of two runs.
//!
//! [`provenance`] computes a step again under a trace; the training loop calls it. [`replay`] calls the training's own
//! functions for each step of a recording ([`recording`]), [`lockstep`] compares two runs on the same batches.
//! [`quantize`] rounds single values.

pub mod lockstep;
pub mod provenance;
pub mod quantize;
pub mod recording;
pub mod replay;
