//! Runs from their first step to their last: their results, their files, and survived faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alerts;
mod cast_schedule;
mod faults;
mod groups;
mod io_errors;
mod kills;
mod metrics;
mod observe;
mod optimizers;
mod other_trainers;
mod profile;
mod quantized;
mod replay;
mod resume;
mod runs;
mod scale_warning;
mod states;
mod stored_scales;
mod widths;
