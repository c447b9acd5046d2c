//! What plugins, signals, disks and other programs do to a run: each end has a message, an exit code and a last word in `run.json`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod culprits;
mod disks;
mod processes;
mod signals;
