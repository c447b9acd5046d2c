//! GPUs: rounding, kernels, training and updates compared with the CPU. `cargo xtask test-gpu` stages a host for
//! these.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rounding;
mod updates;
