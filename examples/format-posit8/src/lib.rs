//! A number format that is no minifloat, in one file: the 8-bit posit of the Posit Standard (2022), with two exponent
//! bits.
//!
//! This file defines the value of each code; `Tabulated` does the rest. Two conventions are declared, because posits
//! taper: they have most digits around 1, and next to none at the ends of their range.
//!
//! Tensors are scaled so that their largest magnitude becomes 16. From 1/16 to 16 a posit of 8 bits has three fraction
//! bits, more than anywhere else. A normal tensor of 4096 elements has 31.5 dB of signal to noise with any target from
//! 1 to 16, 28.3 dB with 32, 19.7 dB with 4096, and 2.6 dB with the largest value, 2^24. Of the plateau, 16 leaves the
//! most room below for small values.
//!
//! Rounding to nearest is the standard's. It rounds strings of bits: the threshold between two posits of 8 bits is the
//! posit of 9 bits between them. It never rounds a non-zero value to zero. The standard's NaR, code 0x80, is NaN here.

use altgrad_plugin_api::{
    Config, Conventions, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Scales,
    Tabulated,
};

/// The format.
#[derive(Debug)]
pub struct Posit8 {
    table: Tabulated,
}

/// Bits a code.
const BITS: u32 = 8;
/// Exponent bits: a step of the regime is 2^2^2.
const EXPONENT_BITS: u32 = 2;
/// The largest magnitude of a tensor is scaled to this value: the end of the range with three fraction bits.
const AMAX_TARGET: f32 = 16.0;

/// The value of a code of up to 16 bits: sign, a run of equal bits (the regime), the bit that ends the run, two
/// exponent bits, and a fraction in the remaining bits.
fn value(code: u16, bits: u32) -> f32 {
    let (all, sign) = (u16::MAX >> (16 - bits), 1 << (bits - 1));
    if code == 0 {
        return 0.0;
    }
    if code == sign {
        return f32::NAN;
    }
    if code > sign {
        // Negatives are two's complements.
        return -value(code.wrapping_neg() & all, bits);
    }
    let body = code << (17 - bits);
    let ones = body.leading_ones();
    let (regime, run) = if ones > 0 {
        (ones as i32 - 1, ones)
    } else {
        (-(body.leading_zeros() as i32), body.leading_zeros())
    };
    // Bits that the regime pushes out are zero.
    let rest = u32::from(body) << (run + 1) & 0xffff;
    let (exponent, fraction) = (rest >> (16 - EXPONENT_BITS), rest & (0xffff >> EXPONENT_BITS));
    let scale = (regime << EXPONENT_BITS) + exponent as i32;
    2f32.powi(scale) * (1.0 + fraction as f32 / (1u32 << (16 - EXPONENT_BITS)) as f32)
}

/// The thresholds of rounding between neighbours: the posit of one bit more that lies between them, and zero beside
/// zero.
fn thresholds() -> Vec<f32> {
    let least = -(1i16 << (BITS - 1)) + 1;
    let turn = |code: i16| match code {
        -1 | 0 => 0.0,
        _ => value((2 * code + 1) as u16 & (u16::MAX >> (15 - BITS)), BITS + 1),
    };
    (least..-least).map(turn).collect()
}

impl Format for Posit8 {
    const DESCRIPTOR: Descriptor = Descriptor::format(
        "POSIT8",
        env!("CARGO_PKG_VERSION"),
        "8-bit posits, two exponent bits: 2^-24 to 2^24",
    );

    fn new(_: &Config) -> Result<Self, PluginError> {
        let table = Tabulated::new((0..1 << BITS).map(|code| value(code, BITS)))?;
        let conventions = Conventions::default().scaled_to(AMAX_TARGET).turning_at(thresholds());
        Ok(Self { table: table.with_conventions(conventions)? })
    }

    fn spec(&self) -> FormatSpec {
        self.table.spec()
    }

    fn conventions(&self) -> Conventions {
        self.table.conventions()
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

    /// Computed by hand from the standard's definition: regime, exponent, fraction.
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
            assert_eq!(value(code, 8), expected, "{code:#010b}");
        }
    }

    #[test]
    fn values_ascend_with_codes_as_signed_integers() {
        let all: Vec<f32> = (-127..=127i8).map(|code| value(u16::from(code as u8), 8)).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
    }

    fn rounded<const N: usize>(src: [f32; N]) -> ([f32; N], QuantStats) {
        let (posit, mut dst) = (Posit8::new(&Config::default()).unwrap(), [0.0; N]);
        let stats = posit.fake_quant(&src, &mut dst, &QuantParams::IDENTITY, &mut []).unwrap();
        (dst, stats)
    }

    #[test]
    fn where_digits_are_many_rounding_is_to_the_nearest_value() {
        let (dst, stats) = rounded([1.06, 1.07, 3e7, f32::NAN]);
        assert_eq!(dst[..3], [1.0, 1.125, 2f32.powi(24)]);
        assert!(dst[3].is_nan());
        assert_eq!((stats.overflow, stats.nan), (1, 1));
    }

    /// The standard's rounding, worked by hand. 2^20 is 0x7e and 2^24 is 0x7f; the nine bits 0_1111_1101 between them
    /// are 2^22, not the middle, and a tie there goes to the even code. Below the least posit nothing becomes zero.
    #[test]
    fn where_digits_are_few_rounding_is_that_of_the_bits() {
        let two = |exponent| 2f32.powi(exponent);
        let (dst, stats) = rounded([two(22), two(22).next_up(), -two(22), two(-30), -two(-149), 0.0]);
        assert_eq!(dst, [two(20), two(24), -two(20), two(-24), -two(-24), 0.0]);
        assert_eq!(stats.underflow, 0);
        // 2^-20 is 0x02 and 2^-18 is 0x03: between them the posit of nine bits is 2^-19, and the even code is the
        // lower.
        assert_eq!(rounded([two(-19), two(-19).next_up()]).0, [two(-20), two(-18)]);
    }
}
