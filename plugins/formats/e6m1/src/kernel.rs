//! How E6M1 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! One significand bit, subnormals in steps of 2^-31: still what every minifloat has. The variants differ in their
//! largest value only, which is the kernel's business.

/// The grid of E6M1 in all of its domains.
pub type E6M1 = altgrad_kernel_kit::Minifloat<6, 1>;
