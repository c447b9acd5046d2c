//! E2M5: three binades of 32 steps above the subnormals, up to 7.875.
//!
//! Bare `E2M5` is `fin`. The best signal-to-noise ratio of the 8-bit splits on amax-scaled Gaussian data.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E2M5;

impl MinifloatName for E2M5 {
    const ID: &'static str = "E2M5";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "8-bit float, 2 exponent and 5 significand bits: narrow range, fine steps";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E2M5, 2, 5>);
