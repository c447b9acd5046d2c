//! E4M3: the 8-bit float for weights and activations (OCP OFP8, arXiv:2209.05433).
//!
//! Bare `E4M3` is `fn` (max 448, one NaN a sign, no infinity); `E4M3:ieee` and `E4M3:fin` are the other two readings.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E4M3;

impl MinifloatName for E4M3 {
    const ID: &'static str = "E4M3";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "8-bit float, 4 exponent and 3 significand bits (OCP OFP8): for weights and activations";
    const CANONICAL: Domain = Domain::FN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E4M3, 4, 3>);
