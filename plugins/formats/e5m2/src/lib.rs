//! E5M2: the 8-bit float with the range of IEEE half precision (OCP OFP8, arXiv:2209.05433).
//!
//! Bare `E5M2` is `ieee` (max 57344, with infinities and NaN); `E5M2:fn` and `E5M2:fin` use the top exponent
//! for numbers. Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E5M2;

impl MinifloatName for E5M2 {
    const ID: &'static str = "E5M2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "8-bit float, 5 exponent and 2 significand bits (OCP OFP8): wide range, for gradients";
    const CANONICAL: Domain = Domain::IEEE;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E5M2, 5, 2>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, format};
    use altgrad_plugin_api::{Format, QuantParams};

    use super::*;

    type Plugin = MinifloatFormat<E5M2, 5, 2>;

    /// Bit literals are split by field: sign, exponent, significand.
    #[test]
    fn codes_of_the_ofp8_specification() {
        let rows = [
            (0.0, 0b0_00000_00),
            (-0.0, 0b1_00000_00),
            (2f32.powi(-16), 0b0_00000_01),
            (3.0 * 2f32.powi(-16), 0b0_00000_11),
            (2f32.powi(-14), 0b0_00001_00),
            (1.0, 0b0_01111_00),
            (-1.75, 0b1_01111_11),
            (57344.0, 0b0_11110_11),
            (61440.0, 0b0_11110_11),
            (f32::NEG_INFINITY, 0b1_11110_11),
            (f32::NAN, 0b0_11111_10),
        ];
        assert_codes::<Plugin>(&rows);
    }

    #[test]
    fn variants_move_the_largest_value() {
        for (variant, max) in [("", 57344.0), ("ieee", 57344.0), ("fn", 98304.0), ("fin", 114_688.0)] {
            let (mut max_found, format) = ([0.0], format::<Plugin>(variant).unwrap());
            let stats = format.fake_quant(&[f32::INFINITY], &mut max_found, &QuantParams::IDENTITY, &mut []);
            assert_eq!((max_found[0], stats.unwrap().overflow), (max, 1), "{variant}");
        }
    }
}
