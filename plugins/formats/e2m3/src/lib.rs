//! E2M3: the finer 6-bit float of MXFP6: steps of 1/8 up to 2, up to 7.5.
//!
//! Bare `E2M3` is `fin`, as in the OCP Microscaling (MX) specification 1.0, section 5.3.2: neither infinities nor NaN.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E2M3;

impl MinifloatName for E2M3 {
    const ID: &'static str = "E2M3";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "6-bit float, 2 exponent and 3 significand bits (OCP MX): fine steps, up to 7.5";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E2M3, 2, 3>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, values};

    use super::*;

    type Plugin = MinifloatFormat<E2M3, 2, 3>;

    /// Bit literals are split by field: sign, exponent, significand. The limits are those of the MX specification,
    /// section 5.3.2.
    #[test]
    fn codes_of_the_mx_specification() {
        let rows = [
            (0.0, 0b0_00_000),
            (-0.0, 0b1_00_000),
            (0.125, 0b0_00_001),
            (0.875, 0b0_00_111),
            (1.0, 0b0_01_000),
            (-1.875, 0b1_01_111),
            (7.5, 0b0_11_111),
            (f32::NEG_INFINITY, 0b1_11_111),
            // Ties: to the even code.
            (0.0625, 0b0_00_000),
            (0.9375, 0b0_01_000),
            (2.125, 0b0_10_000),
            (2.375, 0b0_10_010),
        ];
        assert_codes::<Plugin>(&rows);
        assert_eq!(
            values::<Plugin>(&[0b0_00_001, 0b0_01_000, 0b0_11_111, 0b1_10_100]).unwrap(),
            [0.125, 1.0, 7.5, -3.0]
        );
    }
}
