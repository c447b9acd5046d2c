//! Device kernels of number formats, and of optimizers, turned into text.
//!
//! A format defines its rounding ([`Rounder`]), this crate has the rest of the kernel, and [`Texts`] compiles it with
//! cubecl to CUDA C++ and WGSL, for vectors of 4 and of 1, with a description of its launch. [`Minifloat`] rounds to
//! all minifloats: their texts are `format-kit`'s. An optimizer of the project defines its update rules, and
//! [`Texts::of_updates`] compiles them.
//!
//! No plugin of the project depends on this crate, not even as a build dependency: cubecl takes minutes to compile. The
//! texts are committed as two files, `src/kernel_texts.rs` and `src/kernel_texts.deflate`. `cargo xtask kernels` writes
//! them (`plugins/kernel-generator`), and `tests/kernels` compares them with the output of this crate.
//!
//! For a format elsewhere that is not a minifloat, write a program of a few lines, or a build script with this crate as
//! a build dependency:
//!
//! ```
//! // src/kernel.rs
//! use altgrad_kernel_kit::prelude::*;
//!
//! /// Powers of two, toward zero whatever the mode.
//! pub struct Powers;
//!
//! #[cube]
//! impl Rounder for Powers {
//!     fn value(magnitude: u32, _word: u32, _grid: &Grid, #[comptime] _mode: Mode) -> u32 {
//!         magnitude & 0x7f80_0000u32
//!     }
//! }
//!
//! // build.rs, after `#[path = "src/kernel.rs"] mod kernel;`
//! # fn main() {}
//! # fn build() -> std::io::Result<()> {
//! let dir = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
//! let texts = altgrad_kernel_kit::Texts::of_format::<Powers>();
//! std::fs::write(dir.join("texts.rs"), texts.table("texts.deflate"))?;
//! std::fs::write(dir.join("texts.deflate"), texts.deflated())?;
//! # Ok(())
//! # }
//!
//! // src/lib.rs: `texts::TEXTS` is the table
//! # #[cfg(any())]
//! mod texts {
//!     include!(concat!(env!("OUT_DIR"), "/texts.rs"));
//! }
//! ```
//!
//! See also: [`rounder`] for the part of a format, [`kernels`] and [`update`] for the computations, [`recipe`] for
//! arguments, `plugin-api`'s `kernel` module for the contract of the text and of the table.

mod expand;
pub mod kernels;
pub mod minifloat;
mod random;
pub mod recipe;
pub mod rounder;
mod tally;
mod texts;
pub mod update;

pub use altgrad_plugin_api::kernel::rules::UpdateRule;
pub use minifloat::Minifloat;
pub use rounder::{Grid, Mode, Rounder};
pub use texts::Texts;

/// The imports of a file with a [`Rounder`].
pub mod prelude {
    pub use cubecl_core as cubecl;
    pub use cubecl_core::prelude::*;

    pub use crate::rounder::{Grid, Mode, Rounder, chance};
}
