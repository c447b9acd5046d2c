//! E3M4: seven binades of 16 steps, up to 31.
//!
//! Bare `E3M4` is `fin`; `E3M4:ieee` is ml_dtypes' float8_e3m4 (max 15.5, with infinities and NaN).
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E3M4;

impl MinifloatName for E3M4 {
    const ID: &'static str = "E3M4";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "8-bit float, 3 exponent and 4 significand bits";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E3M4, 3, 4>);
