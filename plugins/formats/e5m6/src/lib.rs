//! E5M6: FP16 without its last four bits: 12 bits.
//!
//! DeepSeek-V3 stores the inputs of the linear layers after attention in it (arXiv:2412.19437, section 3.3.3), and does
//! not define the top exponent. Bare `E5M6` is `ieee` here (max 65024), so that its codes are the upper 12 bits of
//! FP16's. Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E5M6;

impl MinifloatName for E5M6 {
    const ID: &'static str = "E5M6";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "12-bit float, 5 exponent and 6 significand bits (DeepSeek-V3's activations)";
    const CANONICAL: Domain = Domain::IEEE;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E5M6, 5, 6>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, values};

    use super::*;

    type Plugin = MinifloatFormat<E5M6, 5, 6>;

    /// The upper 12 bits of FP16's codes. Bit literals are split by field: sign, exponent, significand.
    #[test]
    fn codes_are_those_of_fp16_without_the_last_bits() {
        let rows = [
            (0.0, 0b0_00000_000000),
            (-0.0, 0b1_00000_000000),
            (2f32.powi(-20), 0b0_00000_000001),
            (2f32.powi(-14), 0b0_00001_000000),
            (1.0, 0b0_01111_000000),
            (-1.984_375, 0b1_01111_111111),
            (65024.0, 0b0_11110_111111),
            (f32::INFINITY, 0b0_11110_111111),
            (f32::NAN, 0b0_11111_100000),
            // Ties: to the even code.
            (1.0 + 2f32.powi(-7), 0b0_01111_000000),
            (1.0 + 3.0 * 2f32.powi(-7), 0b0_01111_000010),
        ];
        assert_codes::<Plugin>(&rows);
        assert_eq!(
            values::<Plugin>(&[0b0_00000_000001, 0b0_01101_010101, 0b1_11110_111111]).unwrap(),
            [2f32.powi(-20), 0.332_031_25, -65024.0]
        );
    }
}
