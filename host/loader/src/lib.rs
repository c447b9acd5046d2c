//! Plugins: from paths in a run file to instances that can be called.
//!
//! [`info`] reads what a file says about itself ([`notes`]), [`registry`] finds files, [`vet`] asks whether their code may run,
//! [`library`] turns a file into a checked library, [`instance`] makes the formats, optimizers and sinks a run calls, `c_abi`
//! what a library in C lacks. [`calls`] says which plugin call is running. This crate does not depend on burn or on the training
//! loop. Libraries are never unloaded.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod c_abi;
pub mod calls;
mod codes;
mod cpu;
pub mod elf;
#[allow(unsafe_code)]
mod ffi;
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
pub use registry::{Catalog, Registry};
pub use rounding::{rounding_mode, rounding_name};
