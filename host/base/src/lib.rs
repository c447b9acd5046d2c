//! Common code of the host's crates: errors, files, random streams, the median, distances in ULP and terminal output.
//!
//! [`diagnostic`] is the error type, [`files`] reads and writes whole files, [`random`] addresses random numbers by
//! their use, [`statistics`] has the median, [`ulp`] the distance of two f32 numbers, [`interrupt`] handles signals,
//! [`memory`] reads the memory of the process, [`scratch`] removes temporary files even after a signal, and the macros
//! of [`print`](mod@print) write to a terminal that may be closed, without control characters of foreign text. This
//! crate does not depend on run files, plugins or tensors.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod files;
pub mod interrupt;
pub mod memory;
pub mod print;
pub mod random;
pub mod scratch;
pub mod statistics;
pub mod ulp;
