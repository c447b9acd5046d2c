//! Effects of plugins, signals, disks and other programs on a run: each end has a message, an exit code and a final
//! status in `run.json`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changed_data;
mod culprits;
mod disks;
mod processes;
mod signals;
