//! Sinks in whole runs: the data they receive, and the effects of a failing one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failing;
mod tensorboard;
mod wandb;
