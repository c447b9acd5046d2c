//! Floating-point types of stored scales: without sign.
//!
//! Refuses types of more than 8 bits, and those whose numbers exceed f32. Names are `ueEmM` for E exponent and M
//! significand bits, with subnormals and zero, whose code of ones is NaN; `ueEmM:ieee`, whose largest exponent is not
//! used; and `e6m2`, that of HiFloat4, without subnormals and zero.

use std::{fmt, str::FromStr};

use crate::powers::{exp2, floor_log2, wide_exp2};

/// The rounding of scales that are floating-point bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleRounding {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Up.
    Up,
    /// Up with the probability of the distance from below, in 2^24 steps: one random word per block.
    Stochastic,
}

/// An unsigned floating-point type with the bias `2^(E-1) - 1`, or with one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleType {
    exponent_bits: u8,
    significand_bits: u8,
    ieee: bool,
    /// The bias of a type without subnormals and zero.
    normal_bias: Option<u8>,
}

impl ScaleType {
    /// NVFP4's: E4M3 without sign.
    pub const UE4M3: Self = Self { exponent_bits: 4, significand_bits: 3, ieee: false, normal_bias: None };
    /// HiFloat4's: from `2^-48` to `1.5 2^15`.
    pub const E6M2: Self = Self { exponent_bits: 6, significand_bits: 2, ieee: false, normal_bias: Some(48) };

    fn bias(self) -> i32 {
        self.normal_bias.map_or((1 << (self.exponent_bits - 1)) - 1, i32::from)
    }

    /// Stored significand bits.
    #[must_use]
    pub fn significand_bits(self) -> u32 {
        self.significand_bits.into()
    }

    /// The least number: 0, or the smallest of a type without subnormals.
    #[must_use]
    pub fn least(self) -> f32 {
        if self.normal_bias.is_some() { exp2(self.emin()) } else { 0.0 }
    }

    /// The number of code 1: the smallest above 0 of a type with subnormals.
    #[must_use]
    pub fn smallest(self) -> f32 {
        self.value(1)
    }

    /// The exponent of the smallest normal number.
    #[must_use]
    pub fn emin(self) -> i32 {
        i32::from(self.normal_bias.is_none()) - self.bias()
    }

    /// The code of NaN: all ones.
    pub(crate) fn nan(self) -> u8 {
        ((1u32 << (self.exponent_bits + self.significand_bits)) - 1) as u8
    }

    /// The code of the largest number.
    fn last(self) -> u8 {
        if self.ieee {
            (((1u32 << self.exponent_bits) - 1) << self.significand_bits) as u8 - 1
        } else {
            self.nan() - 1
        }
    }

    /// The largest number: 448 for UE4M3, 114688 for UE5M3, 61440 for `ue5m3:ieee`.
    #[must_use]
    pub fn largest(self) -> f32 {
        self.value(self.last())
    }

    /// All numbers, ascending.
    pub(crate) fn values(self) -> impl Iterator<Item = f32> {
        (0..=self.last()).map(move |code| self.value(code))
    }

    /// The value of a code up to the last.
    pub(crate) fn value(self, code: u8) -> f32 {
        let (m, code) = (i32::from(self.significand_bits), i32::from(code));
        let (exponent, significand) = (code >> m, code & ((1 << m) - 1));
        let (units, exponent) = if exponent == 0 && self.normal_bias.is_none() {
            (significand, 1)
        } else {
            ((1 << m) + significand, exponent)
        };
        // At most 8 bits: exact.
        units as f32 * exp2(exponent - self.bias() - m)
    }

    /// The code of a number from 0, and its value. `word` is the random word of stochastic rounding.
    #[inline(always)]
    pub(crate) fn round(self, x: f32, rounding: ScaleRounding, word: u32) -> (u8, f32) {
        /// Added to a number below 2^51 it leaves a whole number, ties to even.
        const WHOLE: f64 = (1u64 << 52) as f64;
        /// The unit of random numbers from 0 to 1.
        const UNIT: f64 = 1.0 / (1u32 << 24) as f64;
        let (m, emin) = (i32::from(self.significand_bits), self.emin());
        // Code 0 is the smallest number.
        let x = x.clamp(if self.normal_bias.is_some() { exp2(emin) } else { 0.0 }, self.largest());
        if x == 0.0 {
            return (0, 0.0);
        }
        let exponent = floor_log2(x).max(emin);
        let steps = f64::from(x) * wide_exp2(m - exponent);
        let steps = match rounding {
            ScaleRounding::Nearest => steps + WHOLE - WHOLE,
            ScaleRounding::Up => steps.ceil(),
            ScaleRounding::Stochastic => {
                steps.floor() + f64::from(u8::from(f64::from(word >> 8) * UNIT < steps.fract()))
            }
        };
        // Steps carry into the next binade: 2^(m+1) steps of one are 2^m of the next, and codes count on.
        let below = if self.normal_bias.is_some() { 1 << m } else { 0 };
        let code = ((exponent - emin) << m) + steps as i32 - below;
        (code as u8, (steps * wide_exp2(exponent - m)) as f32)
    }
}

impl FromStr for ScaleType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "e6m2" {
            return Ok(Self::E6M2);
        }
        let (bits, ieee) = match text.strip_suffix(":ieee") {
            Some(bits) => (bits, true),
            None => (text, false),
        };
        let (exponent, significand) =
            bits.strip_prefix("ue").and_then(|bits| bits.split_once('m')).ok_or(())?;
        let number = |text: &str| text.parse::<u8>().ok().filter(|number| number.to_string() == text);
        let (exponent_bits, significand_bits) = number(exponent).zip(number(significand)).ok_or(())?;
        let exists = (2..=7).contains(&exponent_bits) && (1..=6).contains(&significand_bits);
        if !exists || exponent_bits + significand_bits > 8 {
            return Err(());
        }
        Ok(Self { exponent_bits, significand_bits, ieee, normal_bias: None })
    }
}

impl fmt::Display for ScaleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exponent_bits, significand_bits, ieee, normal_bias } = self;
        let sign = if normal_bias.is_some() { "" } else { "u" };
        write!(f, "{sign}e{exponent_bits}m{significand_bits}{}", if *ieee { ":ieee" } else { "" })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ScaleRounding::*;
    use super::*;
    use crate::scale_storage::e4m3;

    /// The table of CUDA 13.4's UE5M3 and of the type whose top exponent is not used.
    #[test]
    fn ue5m3_rounds_as_its_sources() {
        let [cuda, ieee] = ["ue5m3", "ue5m3:ieee"].map(|name| name.parse::<ScaleType>().unwrap());
        assert_eq!((cuda.largest(), ieee.largest()), (114_688.0, 61440.0));
        assert_eq!((cuda.round(1e9, Nearest, 0).0, ieee.round(1e9, Nearest, 0).0), (0xfe, 0xf7));
        for (x, expected) in [
            (2f32.powi(-18), 0.0),
            (2f32.powi(-17), 2f32.powi(-17)),
            (1.5 * 2f32.powi(-17), 2f32.powi(-16)),
            (0.1, 0.101_562_5),
            (7.3, 7.5),
            (460.0, 448.0),
            (64000.0, 65536.0),
            (118_784.0, 114_688.0),
        ] {
            assert_eq!(cuda.round(x, Nearest, 0).1, expected, "{x}");
            assert_eq!(ieee.round(x, Nearest, 0).1, expected.min(61440.0), "{x}");
            assert!(cuda.round(x, Up, 0).1 >= x.min(114_688.0));
        }
    }

    #[test]
    fn ue4m3_rounds_as_the_scales_of_nvfp4() {
        for i in 0..60_000u32 {
            let x = f32::from_bits((113 << 23) + i * 3700);
            assert_eq!(ScaleType::UE4M3.round(x, Nearest, 0), e4m3(x), "{x:e}");
        }
        for code in 0..0x7e {
            let value = ScaleType::UE4M3.value(code);
            assert_eq!(ScaleType::UE4M3.round(value, Up, 0), (code, value));
        }
    }

    /// arXiv:2602.11287: the smallest number has code 0, and the code of ones would be 1.75 2^15.
    #[test]
    fn e6m2_has_neither_zero_nor_subnormals() {
        let e6m2: ScaleType = "e6m2".parse().unwrap();
        let least = 2f32.powi(-48);
        assert_eq!((e6m2.largest(), e6m2.last(), e6m2.values().count()), (49152.0, 0xfe, 255));
        assert_eq!([0.0, least / 2.0, least].map(|x| e6m2.round(x, Nearest, 0)), [(0, least); 3]);
        // 1.125, 1.375 and 1.875 are ties: to even.
        for (x, expected) in [
            (1.125, 1.0),
            (1.375, 1.5),
            (1.3, 1.25),
            (1.875, 2.0),
            (1e9, 49152.0),
            (2f32.powi(-47) * 1.2, 2f32.powi(-47) * 1.25),
        ] {
            assert_eq!(e6m2.round(x, Nearest, 0).1, expected, "{x}");
        }
        for code in 0..=0xfe {
            let value = e6m2.value(code);
            assert_eq!((e6m2.round(value, Nearest, 0), e6m2.round(value, Up, 0).0), ((code, value), code));
            let [exponent, significand] = [i32::from(code >> 2) - 48, i32::from(code & 3)];
            assert_eq!(f64::from(value), (1.0 + f64::from(significand) / 4.0) * 2f64.powi(exponent));
        }
    }

    /// 9/8 lies between E4M3's 1.125 only; 1.1 between 1 and 1.125, at 0.8 of the distance.
    #[test]
    fn stochastic_scales_go_up_where_the_random_number_is_below_the_distance() {
        let round = |x, u: f64| ScaleType::UE4M3.round(x, Stochastic, ((u * 2f64.powi(24)) as u32) << 8).1;
        assert_eq!([0.0, 0.79, 0.81, 0.99].map(|u| round(1.1, u)), [1.125, 1.125, 1.0, 1.0]);
        assert_eq!([round(1.125, 0.0), round(1e9, 0.0), round(0.0, 0.0)], [1.125, 448.0, 0.0]);
        // Up to the next binade, and from 0 to the smallest.
        assert_eq!(
            [round(1.95, 0.0), round(2f32.powi(-11), 0.2), round(2f32.powi(-11), 0.3)],
            [2.0, 2f32.powi(-9), 0.0]
        );
    }

    #[test]
    fn names_are_read_and_written() {
        for name in ["ue5m3", "ue5m3:ieee", "ue4m4", "ue7m1", "e6m2"] {
            assert_eq!(name.parse::<ScaleType>().unwrap().to_string(), name);
        }
        for none in ["ue8m0", "ue9m1", "ue5m4", "e5m3", "ue05m3", "ue5m", "ue5m3:fn", ""] {
            assert!(none.parse::<ScaleType>().is_err(), "{none}");
        }
    }
}
