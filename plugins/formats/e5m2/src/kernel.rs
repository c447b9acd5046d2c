//! How E5M2 rounds on a device. Part of the build script, not of the library: see `build.rs`.
//!
//! Two significand bits and gradual underflow below 2^-14: nothing a format could use but what every minifloat
//! has. The variants `fn` and `fin` differ in their largest value only, which is the kernel's business.

use altgrad_kernel_kit::prelude::*;

/// The grid of E5M2 in all of its domains.
pub struct E5M2;

const SHAPE: Shape = Shape::new(5, 2);

#[cube]
impl Rounder for E5M2 {
    const BITS: u32 = 8;

    fn value(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        minifloat::value(magnitude, word, mode, SHAPE)
    }

    fn code(magnitude: u32, word: u32, #[comptime] mode: Mode) -> u32 {
        minifloat::code(magnitude, word, mode, SHAPE)
    }

    fn decode(code: u32) -> u32 {
        minifloat::decode(code, SHAPE)
    }
}
