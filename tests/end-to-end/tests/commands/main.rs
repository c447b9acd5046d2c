//! All commands except training: their output, their refusals, and the files they leave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod bench;
mod blame;
mod book;
mod casts;
mod curvature;
mod data;
mod diff;
mod evaluate;
mod foreign_bins;
mod foreign_text;
mod formats;
mod gpu_bundle;
mod hints;
mod live;
mod live_page;
mod outputs;
mod page_controls;
mod prove;
mod report;
mod sample;
mod start;
mod temporary;
