//! Common code of number formats: the minifloat grid, rounding to it, random bits, and a complete `Format`.
//!
//! A format crate names itself ([`MinifloatName`]) and exports [`MinifloatFormat`] with its two bit counts; everything
//! else is derived from them at compile time, so that each crate gets a kernel of its own. This crate does not depend
//! on tensors or threads. Kernels for devices are texts, which `cargo xtask kernels` writes (`kernel_texts`).
//!
//! ```
//! use altgrad_format_kit::{MinifloatFormat, MinifloatName};
//! use altgrad_plugin_api::Domain;
//!
//! #[derive(Debug)]
//! struct E4M3;
//!
//! impl MinifloatName for E4M3 {
//!     const ID: &'static str = "E4M3";
//!     const VERSION: &'static str = "1.0.0";
//!     const SUMMARY: &'static str = "OCP E4M3";
//!     const CANONICAL: Domain = Domain::FN;
//!     const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
//! }
//!
//! type Plugin = MinifloatFormat<E4M3, 4, 3>;
//! // In a plugin library: altgrad_plugin_api::export_plugin!(format MinifloatFormat<E4M3, 4, 3>);
//! # fn main() { let _: Option<Plugin> = None; }
//! ```
//!
//! See also: [`mod@grid`] for the values of a format, [`round`] for the four rounding modes, [`random`] for stochastic
//! rounding's bits, [`cpu`] for the loops over slices.

#![deny(missing_docs)]

pub mod cpu;
mod exact;
mod format;
mod groups;
mod histogram;
#[rustfmt::skip] // Generated.
mod kernel_texts;
mod piece;
pub mod random;
pub mod round;
mod scales;
mod simd;
pub mod testing;

pub use altgrad_plugin_api::grid::{self, MinifloatGrid, minifloat};
pub use format::{MinifloatFormat, MinifloatName};
