//! E5M10: IEEE 754 binary16, also called half precision or FP16.
//!
//! Bare `E5M10` is `ieee` (max 65504, with infinities and NaN); `E5M10:fin` is Arm's alternative half precision (max
//! 131008). Like every format here it saturates, where IEEE arithmetic would overflow to infinity. Arithmetic is
//! `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E5M10;

impl MinifloatName for E5M10 {
    const ID: &'static str = "E5M10";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "16-bit float, 5 exponent and 10 significand bits: IEEE half precision, FP16";
    const CANONICAL: Domain = Domain::IEEE;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E5M10, 5, 10>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, values};

    use super::*;

    type Plugin = MinifloatFormat<E5M10, 5, 10>;

    /// Codes that IEEE 754 and its commentaries give for binary16. Bit literals are split by field: sign, exponent,
    /// significand.
    #[test]
    fn codes_of_binary16() {
        let rows = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (2f32.powi(-24), 0x0001),
            (1023.0 * 2f32.powi(-24), 0x03ff),
            (2f32.powi(-14), 0x0400),
            (1.0 / 3.0, 0x3555),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (f32::INFINITY, 0x7bff),
            (f32::NAN, 0b0_11111_1000000000),
            // Ties: to the even code.
            (2f32.powi(-25), 0x0000),
            (1.0 + 2f32.powi(-11), 0x3c00),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3c02),
        ];
        assert_codes::<Plugin>(&rows);
        assert_eq!(
            values::<Plugin>(&[0x0001, 0x3555, 0x7bff, 0xfc00]).unwrap(),
            [5.960_464_5e-8, 0.333_251_95, 65504.0, f32::NEG_INFINITY]
        );
    }
}
