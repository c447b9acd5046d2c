//! E2M1: the 4-bit float of MXFP4 and NVFP4: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
//!
//! Bare `E2M1` is `fin`, as in the OCP Microscaling (MX) specification 1.0, section 5.3.3: neither infinities nor NaN.
//! With 15 values the scale decides everything, so it is meant for blocks of 16 or 32. Arithmetic is
//! `altgrad-format-kit`'s, on the CPU and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct E2M1;

impl MinifloatName for E2M1 {
    const ID: &'static str = "E2M1";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "4-bit float, 2 exponent bits and 1 significand bit (OCP MX, NVFP4): up to 6";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<E2M1, 2, 1>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, code, values};

    use super::*;

    type Plugin = MinifloatFormat<E2M1, 2, 1>;

    /// All codes of the MX specification, section 5.3.3.
    #[test]
    fn codes_of_the_mx_specification() {
        let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (magnitude, value) in (0..).zip(magnitudes) {
            assert_codes::<Plugin>(&[(value, magnitude), (-value, magnitude | 0b1000)]);
        }
        let decoded = values::<Plugin>(&std::array::from_fn::<_, 16, _>(|code| code as u16)).unwrap();
        assert_eq!((&decoded[..8], decoded[15]), (&magnitudes[..], -6.0));
    }

    #[test]
    fn ties_go_to_the_even_code_and_large_values_saturate() {
        let rows =
            [(0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6), (5.1, 7), (1e9, 7)];
        assert_codes::<Plugin>(&rows);
        assert!(code::<Plugin>(f32::NAN).is_err());
    }
}
