//! Device kernels of number formats, turned into text while a plugin is built.
//!
//! A build-dependency: it brings cubecl into the build script, and nothing of it into the plugin. The format's
//! crate says how it rounds ([`Rounder`], in its `src/kernel.rs`), this crate has the kernels around it, and
//! [`build`] compiles each to CUDA C++ and WGSL, for vectors of 4 and of 1, and writes the texts and how to launch them.
//!
//! ```
//! // src/kernel.rs
//! use altgrad_kernel_kit::prelude::*;
//!
//! pub struct E4M3;
//!
//! const SHAPE: Shape = Shape::new(4, 3);
//!
//! #[cube]
//! impl Rounder for E4M3 {
//!     const BITS: u32 = 8;
//!
//!     fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
//!         minifloat::value(magnitude, word, mode, SHAPE)
//!     }
//!
//!     fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
//!         minifloat::code(magnitude, word, mode, SHAPE)
//!     }
//!
//!     fn decode(code: u32) -> u32 {
//!         minifloat::decode(code, SHAPE)
//!     }
//! }
//!
//! // build.rs, after `#[path = "src/kernel.rs"] mod kernel;`
//! # fn main() {}
//! # fn build() {
//! altgrad_kernel_kit::build::<E4M3>();
//! # }
//! ```
//!
//! Where to go next: [`rounder`] for what a format provides, [`kernels`] for what is computed, [`recipe`] for
//! arguments, `plugin-api`'s `kernel` module for the contract of the text.

pub mod embed;
mod expand;
pub mod kernels;
pub mod minifloat;
mod random;
pub mod recipe;
pub mod rounder;
mod tally;
mod write;

pub use minifloat::Shape;
pub use rounder::{Mode, Rounder};
pub use write::{build, write};

/// What a format's `src/kernel.rs` needs.
pub mod prelude {
    pub use cubecl_core as cubecl;
    pub use cubecl_core::prelude::*;

    pub use crate::{
        minifloat::{self, Shape},
        rounder::{Mode, Rounder},
    };
}
