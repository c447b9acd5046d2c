//! E6M1: two values a binade over 63 binades, up to 1.5 * 2^32.
//!
//! Bare `E6M1` is `fin`.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E6M1;

impl MinifloatName for E6M1 {
    const ID: &'static str = "E6M1";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "8-bit float, 6 exponent bits and 1 significand bit: two values a binade";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E6M1, 6, 1>);
