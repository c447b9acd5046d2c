//! Floating-point types of stored scales: without sign, with subnormals and zero.
//!
//! Refuses types of more than 8 bits, and those whose numbers exceed f32. Names are `ueEmM` for E exponent and M
//! significand bits, whose code of ones is NaN, and `ueEmM:ieee`, whose largest exponent is not used.

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

/// An unsigned floating-point type with the bias `2^(E-1) - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleType {
    exponent_bits: u8,
    significand_bits: u8,
    ieee: bool,
}

impl ScaleType {
    /// NVFP4's: E4M3 without sign.
    pub const UE4M3: Self = Self { exponent_bits: 4, significand_bits: 3, ieee: false };

    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
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
        let (units, exponent) =
            if exponent == 0 { (significand, 1) } else { ((1 << m) + significand, exponent) };
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
        let (m, emin) = (i32::from(self.significand_bits), 1 - self.bias());
        let x = x.clamp(0.0, self.largest());
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
        let code = ((exponent - emin) << m) + steps as i32;
        (code as u8, (steps * wide_exp2(exponent - m)) as f32)
    }
}

impl FromStr for ScaleType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
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
        Ok(Self { exponent_bits, significand_bits, ieee })
    }
}

impl fmt::Display for ScaleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exponent_bits, significand_bits, ieee } = self;
        write!(f, "ue{exponent_bits}m{significand_bits}{}", if *ieee { ":ieee" } else { "" })
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
        for name in ["ue5m3", "ue5m3:ieee", "ue4m4", "ue7m1"] {
            assert_eq!(name.parse::<ScaleType>().unwrap().to_string(), name);
        }
        for none in ["ue8m0", "ue9m1", "ue5m4", "e5m3", "ue05m3", "ue5m", "ue5m3:fn", ""] {
            assert!(none.parse::<ScaleType>().is_err(), "{none}");
        }
    }
}
