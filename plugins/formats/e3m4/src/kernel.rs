//! How E3M4 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Nothing but what every minifloat has: binades above 2^-2, gradual underflow in steps of 2^-6 below. The variants differ
//! in their largest value only, which is the kernel's business.

/// The grid of E3M4 in all of its domains.
pub type E3M4 = altgrad_kernel_kit::Minifloat<3, 4>;
