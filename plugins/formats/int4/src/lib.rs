//! INT4: symmetric 4-bit integers: k/4 with |k| <= 7.
//!
//! The unit of 1/4 makes 1 the largest power of two, as INT8's of 1/64 does, so that one rule for scales suits both.
//! With a scale for the largest magnitude the unit has no effect. -8 is left unused, so the grid is symmetric. An
//! integer is a minifloat without exponent bits (E0M3), and so has all of its rounding modes and kernels. Codes are
//! sign and magnitude with a zero of each sign, not two's complement. Arithmetic is `altgrad-format-kit`'s, on the CPU
//! and on devices.

use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::Domain;

/// The name of this crate's format.
#[derive(Debug)]
pub struct Int4;

impl MinifloatName for Int4 {
    const ID: &'static str = "INT4";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Symmetric 4-bit integers over 4: k/4, |k| <= 7";
    const CANONICAL: Domain = Domain::FIN;
    const DOMAINS: &'static [Domain] = &[Domain::FIN];
}

altgrad_plugin_api::export_plugin!(format MinifloatFormat<Int4, 0, 3>);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]
mod tests {
    use altgrad_format_kit::testing::{assert_codes, code, values};

    use super::*;

    type Plugin = MinifloatFormat<Int4, 0, 3>;

    /// All codes: the sign, then the magnitude in units of 1/4.
    #[test]
    fn codes_are_sign_and_magnitude_of_the_integer() {
        let decoded = values::<Plugin>(&std::array::from_fn::<_, 16, _>(|code| code as u16)).unwrap();
        for k in 0..8 {
            let value = f32::from(k) / 4.0;
            assert_codes::<Plugin>(&[(value, k), (-value, k | 0b1000)]);
            assert_eq!((decoded[usize::from(k)], decoded[usize::from(k | 0b1000)]), (value, -value), "{k}");
        }
    }

    #[test]
    fn ties_go_to_the_even_integer_and_large_values_saturate() {
        for (x, expected) in [(0.125, 0), (0.375, 2), (0.625, 2), (1.625, 6), (1.63, 7), (2.0, 7), (1e9, 7)] {
            assert_codes::<Plugin>(&[(x, expected), (-x, expected | 0b1000)]);
        }
        assert!(code::<Plugin>(f32::NAN).is_err());
    }
}
