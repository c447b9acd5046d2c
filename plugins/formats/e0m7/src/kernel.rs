//! How E0M7 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Code c is c/64 everywhere: one shift rounds, and there are no binades to tell apart.

/// The grid of E0M7.
pub type E0M7 = altgrad_kernel_kit::Linear<8, 6>;
