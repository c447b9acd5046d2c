//! The engine: model, quantization, training, metrics, alerts and checkpoints.
//!
//! A run file becomes a [`setup::ReadyRun`] ([`setup`]): an immutable setup and a mutable [`state`]. A [`mod@step`] has
//! the gradients of the [`model`] under [`quant`] ([`passes`]), the update by [`optimizer`], and one record of
//! [`metrics`]. [`train`] is the loop over steps, with [`altgrad_alerts`] on each record and [`checkpoint`]s of the
//! state. [`debug`] holds the tools that compare runs and find the first value that is not finite, [`mod@bench`] times
//! steps, [`profile`] traces them.
//!
//! This is the only crate that depends on burn. It does not depend on the command line, sweeps or reports. Nothing is
//! written before [`setup`] has accepted the run; all `unsafe` is in [`matrix`].

#![deny(missing_docs)]
#![deny(unsafe_code)]
// Tests compute on the CPU.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod bench;
pub mod checkpoint;
mod checksums;
#[cfg(feature = "gpu")]
pub mod cube_parts;
pub mod curvature;
mod data_sheets;
pub mod debug;
pub mod device;
pub mod device_faults;
mod device_rates;
pub mod evaluate;
pub mod fused_ops;
#[cfg(feature = "gpu")]
mod gpu_facts;
#[cfg(feature = "gpu")]
pub mod host_words;
#[cfg(feature = "cuda")]
mod kernel_cache;
#[cfg(any(feature = "cuda", test))]
mod kernel_file;
#[cfg(any(feature = "gpu", test))]
mod kernel_limits;
#[cfg(feature = "gpu")]
pub mod kernel_text;
pub mod load_model;
#[allow(unsafe_code)]
pub mod matrix;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod optimizer;
pub mod packed_ints;
pub mod passes;
#[cfg(feature = "gpu")]
mod probe;
pub mod profile;
pub mod quant;
pub mod read_back;
pub mod sample;
pub mod setup;
pub mod state;
pub mod step;
pub mod tensor;
pub mod tensor_file;
pub mod trace;
pub mod train;
#[cfg(feature = "gpu")]
pub mod zero_words;
