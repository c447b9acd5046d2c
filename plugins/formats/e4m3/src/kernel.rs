//! How E4M3 rounds on a device. No part of the library: `kernel_texts.rs` is made from it.
//!
//! Nothing but what every minifloat has: binades above 2^-6, gradual underflow below. Where the numbers end, at 0x7E
//! (`fn`), 0x77 (`ieee`) or 0x7F (`fin`), is the kernel's business.

/// The grid of E4M3 in all of its domains.
pub type E4M3 = altgrad_kernel_kit::Minifloat<4, 3>;
