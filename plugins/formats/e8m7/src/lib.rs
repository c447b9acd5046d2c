//! E8M7: bfloat16, the upper half of an f32.
//!
//! `ieee` is its only domain: with numbers in the top exponent it would leave the range of f32. Like every format here
//! it saturates, where a cast to bfloat16 would overflow to infinity. Arithmetic is `altgrad-format-kit`'s, on the CPU
//! and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E8M7;

impl MinifloatName for E8M7 {
    const ID: &'static str = "E8M7";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "16-bit float, 8 exponent and 7 significand bits: bfloat16, the range of f32";
    const CANONICAL: Domain = Domain::IEEE;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E8M7, 8, 7>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, values};

    use super::*;

    type Plugin = MinifloatFormat<E8M7, 8, 7>;

    /// A code is the upper half of the f32, rounded to the nearest.
    #[test]
    fn codes_are_the_upper_halves_of_f32() {
        let rows = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (f32::from_bits(0x0001_0000), 0x0001),
            (f32::MIN_POSITIVE, 0x0080),
            (1.0, 0x3f80),
            (-3.140_625, 0xc049),
            (f32::from_bits(0x7f7f_0000), 0x7f7f),
            (f32::MAX, 0x7f7f),
            (f32::NEG_INFINITY, 0xff7f),
            (f32::NAN, 0b0_11111111_1000000),
            // Ties: to the even code.
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
        ];
        assert_codes::<Plugin>(&rows);
        let bits: Vec<u32> =
            values::<Plugin>(&[0x0001, 0xc049, 0x7f80]).unwrap().into_iter().map(f32::to_bits).collect();
        assert_eq!(bits, [0x0001_0000, 0xc049_0000, 0x7f80_0000]);
    }
}
