//! Device kernels of number formats, and of optimizers, turned into text.
//!
//! A format's crate says how it rounds ([`Rounder`], in its `src/kernel.rs`), this crate has the kernels around it, and [`Texts`]
//! compiles each with cubecl to CUDA C++ and WGSL, for vectors of 4 and of 1, and says how to launch them. An optimizer of the project
//! says by which rules it updates, and [`Texts::of_updates`] does the same for those.
//!
//! No plugin of the project depends on this crate, not even while it is built: cubecl takes minutes to compile. The texts are committed
//! as two files beside the source they are made from, `src/kernel_texts.rs` and `src/kernel_texts.deflate`. `cargo xtask kernels` writes
//! them (`plugins/kernel-generator`), and `tests/kernels` compares them with what this crate makes.
//!
//! A plugin elsewhere does likewise with a program of a few lines; or its build script does this on every build, with this crate as a
//! build-dependency:
//!
//! ```
//! // src/kernel.rs: a grid that is here already, or a `Rounder` of the crate's own
//! pub type Grid = altgrad_kernel_kit::Minifloat<4, 3>;
//!
//! // build.rs, after `#[path = "src/kernel.rs"] mod kernel;`
//! # fn main() {}
//! # fn build() -> std::io::Result<()> {
//! let dir = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
//! let texts = altgrad_kernel_kit::Texts::of_format::<Grid>();
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
mod texts;
pub mod update;

pub use altgrad_plugin_api::kernel::rules::Rule;
pub use linear::Linear;
pub use minifloat::Minifloat;
pub use rounder::{Mode, Rounder};
pub use texts::Texts;

/// What a format's `src/kernel.rs` needs.
pub mod prelude {
    pub use cubecl_core as cubecl;
    pub use cubecl_core::prelude::*;

    pub use crate::rounder::{Mode, Rounder, chance};
}
