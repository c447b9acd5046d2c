//! The slow, obvious definition of rounding, and the formats to hold against it.
#![allow(clippy::unwrap_used, dead_code)]

use altgrad_format_kit::MinifloatGrid;
use altgrad_plugin_api::{Domain, Rounding};

pub const DOMAINS: [Domain; 3] = [Domain::IEEE, Domain::FN, Domain::FIN];

/// Calls `$check::<E, M>()` for the whole 8-bit family, FP16 and BF16.
#[macro_export]
macro_rules! for_all_formats {
    ($check:ident) => {
        $check::<0, 7>();
        $check::<1, 6>();
        $check::<2, 5>();
        $check::<3, 4>();
        $check::<4, 3>();
        $check::<5, 2>();
        $check::<6, 1>();
        $check::<7, 0>();
        $check::<5, 10>();
        $check::<8, 7>();
    };
}

/// The finite magnitudes in order of their codes, and rounding by search among them.
pub struct Reference {
    pub values: Vec<f64>,
}

impl Reference {
    pub fn new(grid: &MinifloatGrid) -> Self {
        Self { values: (0..=grid.max_code()).map(|code| grid.decode(code).into()).collect() }
    }

    /// Magnitude code of a non-NaN `x`. Every f64 operation here is exact.
    pub fn code(&self, x: f32, rounding: Rounding, word: u32) -> usize {
        let x = f64::from(x).abs();
        let last = self.values.len() - 1;
        if x >= self.values[last] {
            return last;
        }
        let below = self.values.partition_point(|&value| value <= x) - 1;
        let (a, b) = (self.values[below], self.values[below + 1]);
        let middle = f64::midpoint(a, b);
        let up = match rounding {
            Rounding::NEAREST_EVEN => x > middle || (x == middle && below % 2 == 1),
            Rounding::NEAREST_AWAY => x >= middle,
            Rounding::TOWARD_ZERO => false,
            // Stochastic: b - a is a power of two, so the quotient is exact too.
            _ => f64::from(word) < ((x - a) / (b - a) * 2f64.powi(32)).floor(),
        };
        below + usize::from(up)
    }

    /// `x` rounded, as f32 bits; NaN as it came.
    pub fn value_bits(&self, x: f32, rounding: Rounding, word: u32) -> u32 {
        if x.is_nan() {
            return x.to_bits();
        }
        (self.values[self.code(x, rounding, word)] as f32).copysign(x).to_bits()
    }
}
