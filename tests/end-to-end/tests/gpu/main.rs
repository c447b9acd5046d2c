//! GPUs: rounding, kernels, training and updates compared with the CPU. `cargo xtask test-gpu` stages a host for
//! these.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cublaslt;
mod launches;
mod no_gpu;
mod replay;
mod rounding;
mod updates;

use altgrad_end_to_end::Outcome;

/// The host's line about a device that is not available; a device that fails later is there.
fn missing(outcome: &Outcome) -> Option<&str> {
    let line = outcome.stderr.lines().find(|line| line.starts_with("error: device `"))?;
    (outcome.code == 4 && line.contains("is not available")).then_some(line)
}
