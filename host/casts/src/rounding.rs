//! The rounding of scaled elements to codes.

use altgrad_plugin_api::Rounding as Mode;

use crate::{CastError, Grid};

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
    /// To the one nearer to zero: microxcaling's `floor`.
    TowardZero,
    /// Up with the probability of the distance from below; the random word of an element is a function of seed, step, tensor
    /// and index ([`altgrad_plugin_api::random`]).
    Stochastic,
}

impl Rounding {
    /// The codes of scaled elements, by a format that rounds in the modes of plugins.
    ///
    /// The codes of elements in a mode; `encode` returns as many codes as it gets elements. Ties toward zero use two of its modes:
    /// the point toward zero is the result where the nearest one, ties away, is no nearer.
    ///
    /// # Errors
    /// The errors of `encode`.
    pub fn codes<E>(
        self,
        grid: &Grid,
        scaled: &[f32],
        mut encode: impl FnMut(&[f32], Mode) -> Result<Vec<u16>, E>,
    ) -> Result<Vec<u16>, E> {
        let mode = match self {
            Self::NearestEven => Mode::NEAREST_EVEN,
            Self::NearestAway => Mode::NEAREST_AWAY,
            Self::TowardZero => Mode::TOWARD_ZERO,
            Self::Stochastic => Mode::STOCHASTIC,
            Self::NearestZero => {
                let inner = encode(scaled, Mode::TOWARD_ZERO)?;
                let mut codes = encode(scaled, Mode::NEAREST_AWAY)?;
                for ((code, inner), x) in codes.iter_mut().zip(inner).zip(scaled) {
                    let middle = f64::from(grid.decode(*code)) + f64::from(grid.decode(inner));
                    if *code != inner && 2.0 * f64::from(*x) == middle {
                        *code = inner;
                    }
                }
                return Ok(codes);
            }
        };
        encode(scaled, mode)
    }

    /// Refuses a mode that the format does not have.
    pub(crate) fn check(self, grid: &Grid) -> Result<(), CastError> {
        if self == Self::NearestZero && grid.has_thresholds() {
            return Err(CastError::fields(
                "`rounding` is nearest-zero, but the format declares its own rounding thresholds",
                "use nearest-even for this format",
            ));
        }
        Ok(())
    }
}
