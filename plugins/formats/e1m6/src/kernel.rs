//! How E1M6 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Code c is c/32 everywhere: its one binade of normal numbers continues the subnormals, so one shift rounds. `ieee` and
//! `fn` end earlier, which is the kernel's business.

/// The grid of E1M6 in all of its domains.
pub type E1M6 = altgrad_kernel_kit::Linear<8, 5>;
