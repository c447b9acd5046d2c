//! E3M2: the wider 6-bit float of MXFP6: seven binades of four values, up to 28.
//!
//! Bare `E3M2` is `fin`, as in the OCP Microscaling (MX) specification 1.0, section 5.3.2: neither infinities nor NaN.
//! Arithmetic is `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E3M2;

impl MinifloatName for E3M2 {
    const ID: &'static str = "E3M2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "6-bit float, 3 exponent and 2 significand bits (OCP MX): wider range, up to 28";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E3M2, 3, 2>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, values};

    use super::*;

    type Plugin = MinifloatFormat<E3M2, 3, 2>;

    /// Bit literals are split by field: sign, exponent, significand. The limits are those of the MX specification,
    /// section 5.3.2.
    #[test]
    fn codes_of_the_mx_specification() {
        let rows = [
            (0.0, 0b0_000_00),
            (-0.0, 0b1_000_00),
            (0.0625, 0b0_000_01),
            (0.1875, 0b0_000_11),
            (0.25, 0b0_001_00),
            (1.0, 0b0_011_00),
            (-1.75, 0b1_011_11),
            (28.0, 0b0_111_11),
            (f32::NEG_INFINITY, 0b1_111_11),
            // Ties: to the even code.
            (0.03125, 0b0_000_00),
            (0.21875, 0b0_001_00),
            (1.125, 0b0_011_00),
            (1.375, 0b0_011_10),
        ];
        assert_codes::<Plugin>(&rows);
        assert_eq!(
            values::<Plugin>(&[0b0_000_01, 0b0_001_00, 0b0_111_11, 0b1_100_01]).unwrap(),
            [0.0625, 0.25, 28.0, -2.5]
        );
    }
}
