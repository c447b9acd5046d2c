//! The rounding of scaled elements to codes.

use altgrad_plugin_api::Rounding as Mode;

use crate::{CastError, FewBits, Grid};

/// The rounding of a value between two grid points. Beyond the largest value all saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// To the nearer, ties to the even code: OCP MX, torchao, Transformer Engine, hardware.
    #[default]
    NearestEven,
    /// To the nearer, ties away from zero: microxcaling's `nearest`.
    NearestAway,
    /// To the nearer, ties toward zero: E2M1 of DeepGEMM and Quartet (arXiv:2505.14669).
    NearestZero,
    /// To the nearer, ties to the greater: DYNAMIC8 of torchao.
    NearestUp,
    /// To the one nearer to zero: microxcaling's `floor`.
    TowardZero,
    /// Up with the probability of the distance from below; the random word of an element is a function of seed, step,
    /// tensor and index ([`altgrad_plugin_api::random`]).
    Stochastic,
    /// The same with few random bits of that word.
    FewBits(FewBits),
}

impl Rounding {
    /// The codes of scaled elements, by a format that rounds in the modes of plugins.
    ///
    /// The codes of elements in a mode; `encode` returns as many codes as it gets elements. Ties toward zero and ties
    /// up use two of its modes: the point toward zero may be the result where the nearest one, ties away, is no nearer.
    /// `words` are the random words of the elements, for few random bits.
    ///
    /// # Errors
    /// The errors of `encode`.
    pub fn codes<E>(
        self,
        grid: &Grid,
        scaled: &[f32],
        words: impl Iterator<Item = u32>,
        mut encode: impl FnMut(&[f32], Mode) -> Result<Vec<u16>, E>,
    ) -> Result<Vec<u16>, E> {
        let mode = match self {
            Self::NearestEven => Mode::NEAREST_EVEN,
            Self::NearestAway => Mode::NEAREST_AWAY,
            Self::TowardZero => Mode::TOWARD_ZERO,
            Self::Stochastic => Mode::STOCHASTIC,
            Self::FewBits(few) => {
                let inner = encode(scaled, Mode::TOWARD_ZERO)?;
                let elements = scaled.iter().zip(inner).zip(words);
                let rounded: Vec<f32> = elements
                    .map(|((x, inner), word)| {
                        few.round(grid.values(), *x, grid.decode(inner).copysign(*x), word)
                    })
                    .collect();
                // Values of the format are rounded to themselves.
                return encode(&rounded, Mode::NEAREST_EVEN);
            }
            Self::NearestZero | Self::NearestUp => {
                let inner = encode(scaled, Mode::TOWARD_ZERO)?;
                let mut codes = encode(scaled, Mode::NEAREST_AWAY)?;
                for ((code, inner), x) in codes.iter_mut().zip(inner).zip(scaled) {
                    if self.is_inner(*x, [grid.decode(*code), grid.decode(inner)]) {
                        *code = inner;
                    }
                }
                return Ok(codes);
            }
        };
        encode(scaled, mode)
    }

    /// True if a mode that decides ties by itself takes, of the nearest value with ties away from zero and the value
    /// toward zero, the second for a scaled element.
    #[must_use]
    pub fn is_inner(self, scaled: f32, [away, inner]: [f32; 2]) -> bool {
        let is_tie = away != inner && 2.0 * f64::from(scaled) == f64::from(away) + f64::from(inner);
        is_tie && (self == Self::NearestZero || inner > away)
    }

    /// Refuses a mode that the format does not have.
    pub(crate) fn check(self, grid: &Grid) -> Result<(), CastError> {
        if matches!(self, Self::FewBits(FewBits { bits, .. }) if !(1..=32).contains(&bits)) {
            return Err(CastError::fields("`random_bits` must be from 1 to 32", "leave it out for 32 bits"));
        }
        if matches!(self, Self::NearestZero | Self::NearestUp) && grid.has_thresholds() {
            return Err(CastError::fields(
                "`rounding` decides ties, but the format declares its own rounding thresholds",
                "use nearest-even for this format",
            ));
        }
        Ok(())
    }
}
