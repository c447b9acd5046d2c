//! How E5M2 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Two significand bits and gradual underflow below 2^-14: nothing a format could use but what every minifloat
//! has. The variants `fn` and `fin` differ in their largest value only, which is the kernel's business.

/// The grid of E5M2 in all of its domains.
pub type E5M2 = altgrad_kernel_kit::Minifloat<5, 2>;
