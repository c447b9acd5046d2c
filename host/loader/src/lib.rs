//! Plugins: from paths in a run file to instances that can be called.
//!
//! [`info`] reads what a file says about itself ([`notes`]), [`library`] turns it into a checked library, [`registry`] finds files
//! and refuses duplicates, [`instance`] makes the formats, optimizers and sinks a run calls, `c_abi` what a library in C lacks.
//! Nothing here knows of tensors of burn or of the training loop. Libraries are never unloaded.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod c_abi;
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
mod version;

pub use info::LibraryInfo;
pub use instance::{FormatPlugin, OptimizerPlugin, SinkPlugin};
pub use library::LoadedLibrary;
pub use registry::{Catalog, Registry};
pub use rounding::{rounding_mode, rounding_name};
