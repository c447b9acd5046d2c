//! E1M6: one exponent bit makes a linear grid: steps of 1/32 up to 3.96875.
//!
//! Bare `E1M6` is `fin`. Subnormals and the only binade of normals have one spacing, so the grid is twice E0M7's.
//! Arithmetic on the CPU is `altgrad-format-kit`'s. On devices it rounds as the linear grid it is (`kernel.rs`):
//! one shift, no binades.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::{Domain, kernel::table::Text};

#[rustfmt::skip] // Generated.
mod kernel_texts;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E1M6;

impl MinifloatName for E1M6 {
    const ID: &'static str = "E1M6";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Linear 8-bit grid: steps of 1/32 up to 3.96875";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
    const KERNELS: &'static [Text] = kernel_texts::TEXTS;
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E1M6, 1, 6>);
