//! Plugins: from paths in a run file to callable instances.
//!
//! [`info`] reads a library's description from its file ([`notes`]), [`registry`] finds files, [`vet`] decides whether
//! their code may run, [`library`] turns a file into a checked library, [`instance`] makes the formats, optimizers and
//! sinks that a run calls, `c_abi` adapts libraries in C, and [`format_file`] reads formats from files without code.
//! [`calls`] records the running plugin call. This crate does not depend on burn or on the training loop. Libraries are
//! never unloaded.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod c_abi;
pub mod calls;
mod codes;
mod cpu;
pub mod elf;
#[allow(unsafe_code)]
mod ffi;
pub mod format_file;
mod image;
pub mod info;
pub mod instance;
#[cfg(feature = "gpu")]
mod launches;
mod layout;
pub mod library;
pub mod notes;
pub mod optimizer;
mod refusal;
pub mod registry;
mod rounding;
mod statistics;
mod version;
pub mod vet;

pub use info::LibraryInfo;
pub use instance::{FormatPlugin, OptimizerPlugin, SinkPlugin};
pub use library::LoadedLibrary;
pub use registry::{Catalog, Registry, own_folder};
pub use rounding::{rounding_mode, rounding_name};
