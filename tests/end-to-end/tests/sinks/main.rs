//! Sinks in whole runs: what they receive, and what one that fails costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failing;
mod tensorboard;
mod wandb;
