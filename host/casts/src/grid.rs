//! A number format as a cast needs it: its values, its range, and what its blocks choose.

use std::sync::Arc;

use altgrad_plugin_api::{Conventions, FormatSpec, PluginError, Tabulated, ValueGrid};

use crate::{
    own_blocks::{BlockMagnitude, OwnBlocks},
    range::{Range, bounds},
};

/// A number format: its values, and the magnitude that the largest of a block is scaled to.
#[derive(Debug, Clone)]
pub struct Grid {
    values: ValueGrid,
    conventions: Conventions,
    range: Range,
    has_nan: bool,
    /// The value of every code.
    decoded: Arc<[f32]>,
    /// Two steps of f32 beyond the least and the largest finite value.
    bounds: [f32; 2],
    own_blocks: OwnBlocks,
}

impl Grid {
    /// The grid of a format.
    ///
    /// # Errors
    /// `CONFIG`: the description or the conventions are impossible.
    pub fn new(spec: &FormatSpec, conventions: &Conventions) -> Result<Self, PluginError> {
        let values = ValueGrid::new(spec)?;
        conventions.check(&values)?;
        let range = Range::new(&values, conventions);
        let decoded: Arc<[f32]> = (0..values.codes()).map(|code| values.decode(code as u16)).collect();
        let own_blocks = OwnBlocks::new(decoded.iter().copied(), conventions)?;
        // The same code may be NaN in one table only.
        let has_nan = !own_blocks.have_tables() && decoded.iter().any(|value| value.is_nan());
        let bounds = bounds([values.min_finite(), values.max_finite()]);
        Ok(Self { values, conventions: conventions.clone(), range, has_nan, decoded, bounds, own_blocks })
    }

    /// The same with the format's function for magnitudes of blocks, which [`Conventions::has_magnitude`] declares.
    #[must_use]
    pub fn with_magnitude(self, magnitude: Arc<BlockMagnitude>) -> Self {
        Self { own_blocks: self.own_blocks.clone().with_magnitude(magnitude), ..self }
    }

    /// What the format chooses for each block.
    pub(crate) fn own_blocks(&self) -> &OwnBlocks {
        &self.own_blocks
    }

    /// The values of the codes.
    #[must_use]
    pub fn values(&self) -> &ValueGrid {
        &self.values
    }

    /// The properties that scales need.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// True if a code is NaN; false if blocks choose among tables.
    #[must_use]
    pub fn has_nan(&self) -> bool {
        self.has_nan
    }

    /// The code of an element that is NaN: all bits below the sign. `None` for numbers, and for formats whose all-ones
    /// code is no NaN.
    pub(crate) fn nan_code(&self, x: f32) -> Option<u16> {
        let ValueGrid::Minifloat(grid) = &self.values else { return None };
        let sign = if x.is_sign_negative() { grid.sign_bit() } else { 0 };
        (x.is_nan() && self.has_nan).then(|| sign | (grid.sign_bit() - 1))
    }

    /// True if the format declares the thresholds of rounding to nearest.
    #[must_use]
    pub fn has_thresholds(&self) -> bool {
        !self.conventions.thresholds.is_empty()
    }

    /// True if a scaled element lies beyond the finite values by more than two steps of f32, the rounding of its scale.
    pub(crate) fn is_beyond(&self, x: f32) -> bool {
        x > self.bounds[1] || x < self.bounds[0]
    }

    /// The least and the largest element that is not.
    pub(crate) fn bounds(&self) -> [f32; 2] {
        self.bounds
    }

    /// Bits a code.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.values.codes().ilog2()
    }

    /// The value of a code, exact; NaN beyond the last.
    #[must_use]
    pub fn decode(&self, code: u16) -> f32 {
        self.decoded.get(usize::from(code)).copied().unwrap_or(f32::NAN)
    }

    /// The sign-magnitude code of every code: the sign is the top bit, and below it magnitudes are numbered from the
    /// smallest. NaN has all bits below the sign set. Codes of minifloats have this form already; those of tables may
    /// be two's complement.
    ///
    /// `None` for a table with more magnitudes than that has room for, such as integers that reach farther below zero
    /// than above, or with infinities.
    #[must_use]
    pub fn sign_magnitude(&self) -> Option<Vec<u16>> {
        let codes = (0..self.values.codes()).map(|code| code as u16);
        let ValueGrid::Table(_) = &self.values else { return Some(codes.collect()) };
        let sign = 1u16 << (self.bits() - 1);
        let mut magnitudes: Vec<f32> = self.values.finite_values().iter().map(|value| value.abs()).collect();
        magnitudes.sort_by(f32::total_cmp);
        magnitudes.dedup();
        if magnitudes.len() + usize::from(self.has_nan) > usize::from(sign) {
            return None;
        }
        let of = |code: u16| {
            let value = self.decode(code);
            let magnitude = if value.is_nan() {
                sign - 1
            } else {
                magnitudes.binary_search_by(|other| other.total_cmp(&value.abs())).ok()? as u16
            };
            Some(if value.is_sign_negative() && !value.is_nan() { sign | magnitude } else { magnitude })
        };
        codes.map(of).collect()
    }

    /// Rounding to this grid without its plugin: slow and bit-identical, except for stochastic rounding, where words of
    /// the random stream may decide otherwise.
    ///
    /// # Errors
    /// `CONFIG`: the format cannot be given by a table.
    pub fn rounder(&self) -> Result<Tabulated, PluginError> {
        let values = (0..self.values.codes()).map(|code| self.values.decode(code as u16));
        Tabulated::new(values)?.with_conventions(self.conventions.clone())
    }
}
