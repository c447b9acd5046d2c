//! A number format that is no minifloat, in one file: the 8-bit posit of the Posit Standard (2022), with two exponent bits.
//!
//! All there is to write is what a code means. Rounding is `Tabulated`'s, to the nearest value; the standard rounds code strings instead,
//! which differs from it between the widest gaps at both ends, and never rounds to zero. Its NaR, code 0x80, is NaN here.

use altgrad_plugin_api::{
    Config, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Scales, Tabulated,
};

/// The format.
#[derive(Debug)]
pub struct Posit8 {
    table: Tabulated,
}

/// Exponent bits: a step of the regime is 2^2^2.
const EXPONENT_BITS: u32 = 2;

/// What a code means: sign, a run of equal bits (the regime), what ends it, two exponent bits, and a fraction of what is left.
fn value(code: u8) -> f32 {
    match code {
        0 => return 0.0,
        0x80 => return f32::NAN,
        // Negatives are two's complements.
        0x81.. => return -value(code.wrapping_neg()),
        _ => {}
    }
    let body = code << 1;
    let ones = body.leading_ones();
    let (regime, run) = if ones > 0 {
        (ones as i32 - 1, ones)
    } else {
        (-(body.leading_zeros() as i32), body.leading_zeros())
    };
    // Bits that the regime pushes out are zero.
    let rest = u32::from(body) << (run + 1) & 0xff;
    let (exponent, fraction) = (rest >> (8 - EXPONENT_BITS), rest & (0xff >> EXPONENT_BITS));
    let scale = (regime << EXPONENT_BITS) + exponent as i32;
    2f32.powi(scale) * (1.0 + fraction as f32 / (256 >> EXPONENT_BITS) as f32)
}

impl Format for Posit8 {
    const DESCRIPTOR: Descriptor = Descriptor::format(
        "POSIT8",
        env!("CARGO_PKG_VERSION"),
        "8-bit posits, two exponent bits: 2^-24 to 2^24",
    );

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { table: Tabulated::new((0..=u8::MAX).map(value))? })
    }

    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.table.fake_quant(src, dst, params, histogram)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        self.table.encode(src, dst, params)
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        self.table.decode(codes, dst, scales)
    }
}

altgrad_plugin_api::export_plugin!(format Posit8);

#[cfg(test)]
// Digits in groups of sign, regime, exponent and fraction.
#[allow(clippy::unusual_byte_groupings)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Worked by hand from the standard's definition: regime, exponent, fraction.
    #[test]
    fn codes_mean_what_the_standard_says() {
        let rows = [
            (0b0_10_00_000, 1.0),
            (0b0_10_00_100, 1.5),
            (0b0_10_10_000, 4.0),
            (0b0_110_00_00, 16.0),
            (0b0_01_11_000, 0.5),
            (0b0_001_00_00, 2f32.powi(-8)),
            (0b0_111_1111, 2f32.powi(24)),
            (0b0_000_0001, 2f32.powi(-24)),
            (0b1_100_0000, -1.0),
            (0b1_000_0001, -(2f32.powi(24))),
        ];
        for (code, expected) in rows {
            assert_eq!(value(code), expected, "{code:#010b}");
        }
    }

    #[test]
    fn values_ascend_with_codes_as_signed_integers() {
        let all: Vec<f32> = (-127..=127i8).map(|code| value(code as u8)).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn rounding_is_to_the_nearest_value() {
        let posit = Posit8::new(&Config::default()).unwrap();
        let (src, mut dst) = ([1.06, 1.07, 3e7, f32::NAN], [0.0; 4]);
        let stats = posit.fake_quant(&src, &mut dst, &QuantParams::IDENTITY, &mut []).unwrap();
        assert_eq!(dst[..3], [1.0, 1.125, 2f32.powi(24)]);
        assert!(dst[3].is_nan());
        assert_eq!((stats.overflow, stats.nan), (1, 1));
    }
}
