//! E0M7: no exponent at all: 128 equal steps of 1/64 up to 1.984375 and their negatives.
//!
//! `fin` is its only domain: there is no top exponent to reserve. Exactly half of E1M6's grid.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E0M7;

impl MinifloatName for E0M7 {
    const ID: &'static str = "E0M7";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Linear 8-bit grid: steps of 1/64 up to 1.984375";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E0M7, 0, 7>);
