//! What every crate of the host shares: errors, files, random streams and terminal output.
//!
//! [`diagnostic`] is the one error type, [`files`] reads and writes whole files, [`random`] addresses random numbers by
//! their use, [`interrupt`] hears signals, [`scratch`] removes what is temporary even then, and the macros of [`print`](mod@print) write to a terminal that may be gone, and that no foreign text commands. This crate
//! knows no run file, plugin or tensor.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod files;
pub mod interrupt;
pub mod print;
pub mod random;
pub mod scratch;
