//! How E2M5 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! A quarter of its positive codes are subnormal, so gradual underflow is no rare case here: the generic rounding has no
//! branch for it. The variants differ in their largest value only, which is the kernel's business.

/// The grid of E2M5 in all of its domains.
pub type E2M5 = altgrad_kernel_kit::Minifloat<2, 5>;
