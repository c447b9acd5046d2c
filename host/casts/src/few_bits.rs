//! Stochastic rounding with few random bits, as instructions of hardware and the modes of IEEE P3109 have it.
//!
//! Of an element between neighbours, `d` from 0 to 1 is the distance from the one nearer to zero, in steps between
//! them, and `r` a whole number of N random bits, the high ones of the element's word. The element goes away from zero
//! if `round(d 2^N) + r >= 2^N`.

use altgrad_plugin_api::ValueGrid;

/// The rounding of `d 2^N` to a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FewBitsMode {
    /// Down: `StochasticA` of P3109, Transformer Engine's software for E2M1. Results are biased toward zero by
    /// `2^-(N+1)` steps.
    #[default]
    A,
    /// To nearest, ties up: `StochasticB`.
    B,
    /// To nearest, ties to even: `StochasticC`.
    C,
    /// To nearest, ties to odd: `StochasticOdd` of gfloat.
    Odd,
}

/// Stochastic rounding with a number of random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FewBits {
    /// N, from 1 to 32.
    pub bits: u8,
    /// The rounding of the distance.
    pub mode: FewBitsMode,
}

impl FewBits {
    /// True if an element goes away from zero.
    pub(crate) fn is_up(self, d: f64, word: u32) -> bool {
        let whole = 1u64 << self.bits;
        let steps = d * whole as f64;
        let steps = match self.mode {
            FewBitsMode::A => steps.floor(),
            FewBitsMode::B => (steps + 0.5).floor(),
            FewBitsMode::C => steps.round_ties_even(),
            FewBitsMode::Odd if steps.fract() == 0.5 => 2.0 * (steps / 2.0).floor() + 1.0,
            FewBitsMode::Odd => steps.round(),
        };
        steps as u64 + u64::from(word >> (32 - self.bits)) >= whole
    }

    /// The value to which a scaled element is rounded, `inner` being its neighbour toward zero.
    #[must_use]
    pub fn round(self, values: &ValueGrid, scaled: f32, inner: f32, word: u32) -> f32 {
        let is_last = inner >= values.max_finite() || inner <= values.min_finite();
        if is_last || inner.is_nan() || inner == scaled {
            return inner;
        }
        let (x, gap) = (f64::from(scaled), values.spacing(scaled.into()));
        let d = (x - f64::from(inner)).abs() / gap;
        if !self.is_up(d, word) {
            return inner;
        }
        (f64::from(inner) + gap.copysign(x)) as f32
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, FormatSpec, grid::minifloat};

    use super::*;

    fn values(exponent: u32, significand: u32, domain: Domain) -> ValueGrid {
        ValueGrid::new(&FormatSpec::Minifloat(minifloat(exponent, significand, domain).unwrap())).unwrap()
    }

    /// The table of probabilities for two bits: the number of four equally likely words that round up.
    #[test]
    fn probabilities_are_those_of_the_modes() {
        let distances = [1.0 / 8.0, 15.0 / 64.0, 0.25, 3.0 / 8.0, 7.0 / 8.0, 0.95];
        for (mode, expected) in [
            (FewBitsMode::A, [0, 0, 1, 1, 3, 3]),
            (FewBitsMode::B, [1, 1, 1, 2, 4, 4]),
            (FewBitsMode::C, [0, 1, 1, 2, 4, 4]),
            (FewBitsMode::Odd, [1, 1, 1, 1, 3, 4]),
        ] {
            let few = FewBits { bits: 2, mode };
            let ups = distances.map(|d| (0..4u32).filter(|r| few.is_up(d, r << 30)).count());
            assert_eq!(ups, expected, "{mode:?}");
        }
    }

    /// For every number of bits and every mode the mean over all words is the closed form, which whole numbers compute.
    #[test]
    fn the_mean_over_all_words_is_the_closed_form() {
        let grid = values(2, 1, Domain::FIN);
        // A multiple of 2^-30, as all of these are.
        let units = |x: f32| (f64::from(x.abs()) * f64::from(1 << 30)) as u128;
        // 1.125 and 2.25 are ties of two and of three bits.
        let elements = [0.3f32, -0.7, 1.2, 2.71, -5.9, 1.125, -2.25, 4.0];
        for (x, bits) in elements.into_iter().flat_map(|x| (1..=32u8).map(move |bits| (x, bits))) {
            let inner = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0].into_iter().rfind(|v| *v <= x.abs()).unwrap();
            let gap = units(grid.spacing(x.into()) as f32);
            let distance = (units(x) - units(inner)) << bits;
            let (whole, twice_the_rest) = (distance / gap, 2 * (distance % gap));
            let is_odd = whole % 2 == 1;
            for (mode, goes_up) in [
                (FewBitsMode::A, false),
                (FewBitsMode::B, twice_the_rest >= gap),
                (FewBitsMode::C, twice_the_rest > gap || (twice_the_rest == gap && is_odd)),
                (FewBitsMode::Odd, twice_the_rest > gap || (twice_the_rest == gap && !is_odd)),
            ] {
                let few = FewBits { bits, mode };
                let rounded =
                    |r: u64| few.round(&grid, x, inner.copysign(x), (r << (32 - bits)) as u32).abs();
                // Words go away from zero from one of them on.
                let (mut least, mut end) = (0, 1u64 << bits);
                while least < end {
                    let middle = least.midpoint(end);
                    if rounded(middle) > inner { end = middle } else { least = middle + 1 }
                }
                let away = u128::from((1u64 << bits) - least);
                assert_eq!(away, whole + u128::from(goes_up), "{x} with {bits} bits, {mode:?}");
            }
        }
    }
}
