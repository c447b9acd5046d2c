//! Device kernels of number formats, and of optimizers, turned into text while a plugin is built.
//!
//! A build-dependency: it brings cubecl into the build script, and nothing of it into the plugin. The format's
//! crate says how it rounds ([`Rounder`], in its `src/kernel.rs`), this crate has the kernels around it, and
//! [`build`] compiles each to CUDA C++ and WGSL, for vectors of 4 and of 1, and writes the texts and how to launch them.
//!
//! ```
//! // src/kernel.rs: a grid that is here already, or a `Rounder` of the crate's own
//! pub type Grid = altgrad_kernel_kit::Minifloat<4, 3>;
//!
//! // build.rs, after `#[path = "src/kernel.rs"] mod kernel;`
//! # fn main() {}
//! # fn build() {
//! altgrad_kernel_kit::build::<Grid>();
//! # }
//!
//! // src/lib.rs
//! # #[cfg(any())]
//! static TEXTS: &[altgrad_plugin_api::kernel::table::Text] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
//! ```
//!
//! An optimizer of the project says by which rules it updates, and [`build_updates`] does the same for those.
//!
//! Where to go next: [`rounder`] for what a format provides, [`kernels`] and [`update`] for what is computed, [`recipe`] for
//! arguments, `plugin-api`'s `kernel` module for the contract of the text and of the table.

mod expand;
pub mod kernels;
pub mod linear;
pub mod minifloat;
mod random;
pub mod recipe;
pub mod rounder;
mod tally;
pub mod update;
mod write;

pub use altgrad_plugin_api::kernel::rules::Rule;
pub use linear::Linear;
pub use minifloat::Minifloat;
pub use rounder::{Mode, Rounder};
pub use write::{build, build_updates, write, write_updates};

/// What a format's `src/kernel.rs` needs.
pub mod prelude {
    pub use cubecl_core as cubecl;
    pub use cubecl_core::prelude::*;

    pub use crate::rounder::{Mode, Rounder, chance};
}
