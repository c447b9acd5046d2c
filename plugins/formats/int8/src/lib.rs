//! INT8: symmetric 8-bit integers as OCP's MXINT8 reads them: k/64 with |k| <= 127.
//!
//! The unit of 1/64 is that of the OCP Microscaling (MX) specification 1.0, section 5.3.4: the largest power of two is
//! 1, so that rules which round a scale by the format's largest exponent give MX's scales. With a scale for the largest
//! magnitude the unit has no effect. -128 is left unused, as the specification allows, so the grid is symmetric. The
//! values are E0M7's: an integer is a minifloat without exponent bits, and so has all of its rounding modes and
//! kernels. Codes are sign and magnitude with a zero of each sign, not two's complement. Arithmetic is
//! `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct Int8;

impl MinifloatName for Int8 {
    const ID: &'static str = "INT8";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Symmetric 8-bit integers over 64: k/64, |k| <= 127 (OCP MXINT8)";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<Int8, 0, 7>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, code, values};

    use super::*;

    type Plugin = MinifloatFormat<Int8, 0, 7>;

    /// Bit literals are split by field: sign, magnitude in units of 1/64.
    #[test]
    fn codes_are_sign_and_magnitude_of_the_integer() {
        let rows = [
            (0.0, 0b0_0000000),
            (-0.0, 0b1_0000000),
            (1.0 / 64.0, 0b0_0000001),
            (1.0, 0b0_1000000),
            (-1.0, 0b1_1000000),
            (127.0 / 64.0, 0b0_1111111),
            (-2.0, 0b1_1111111),
            (f32::INFINITY, 0b0_1111111),
            // Ties: to the even integer.
            (0.5 / 64.0, 0b0_0000000),
            (1.5 / 64.0, 0b0_0000010),
            (-126.5 / 64.0, 0b1_1111110),
        ];
        assert_codes::<Plugin>(&rows);
        assert!(code::<Plugin>(f32::NAN).is_err());
    }

    #[test]
    fn values_are_the_integers_over_64() {
        let codes: Vec<u16> = (0..256).collect();
        let decoded = values::<Plugin>(&codes).unwrap();
        for k in 0..128 {
            let value = k as f32 / 64.0;
            assert_eq!((decoded[k], decoded[k + 128]), (value, -value), "{k}");
        }
    }
}
