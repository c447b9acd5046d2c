//! E1M6: one exponent bit makes a linear grid: steps of 1/32 up to 3.96875.
//!
//! Bare `E1M6` is `fin`. Subnormals and the only binade of normals have one spacing, so the grid is twice E0M7's.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E1M6;

impl MinifloatName for E1M6 {
    const ID: &'static str = "E1M6";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Linear 8-bit grid: steps of 1/32 up to 3.96875";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E1M6, 1, 6>);
