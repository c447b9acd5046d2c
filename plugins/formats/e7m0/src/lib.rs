//! E7M0: powers of two from 2^-62 to 2^64, and zero.
//!
//! Bare `E7M0` is `fin`. Without significand bits there are no subnormals, and ties go to the even code: 1.5 -> 2, 3 ->
//! 2, 6 -> 8. Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E7M0;

impl MinifloatName for E7M0 {
    const ID: &'static str = "E7M0";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Powers of two, 2^-62 to 2^64, and zero";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E7M0, 7, 0>);
