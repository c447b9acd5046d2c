//! The values of any format and the geometry between them, derived from its [`FormatSpec`].
//!
//! A format is data: spacing, code coordinate and its inverse follow from its description, so they always agree with
//! the codes. Minifloats use the closed forms of [`MinifloatGrid`]; tables are sorted and searched. Arguments are in
//! scaled units.

use crate::{FormatSpec, PluginError, grid::MinifloatGrid};

/// The value set of a format.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueGrid {
    /// Closed forms of a minifloat.
    Minifloat(MinifloatGrid),
    /// A sorted list of values.
    Table(TableGrid),
}

impl ValueGrid {
    /// The value set that `spec` describes.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG): the minifloat does not exist, the table's length is not a power
    /// of two up to 2^16, or the table has fewer than two finite values or none above 0.
    pub fn new(spec: &FormatSpec) -> Result<Self, PluginError> {
        match spec {
            FormatSpec::Minifloat(minifloat) => MinifloatGrid::new(*minifloat).map(Self::Minifloat),
            FormatSpec::Table(values) => TableGrid::new(values).map(Self::Table),
        }
    }

    /// Number of codes, 2^bits.
    #[must_use]
    pub fn codes(&self) -> usize {
        match self {
            Self::Minifloat(grid) => grid.codes(),
            Self::Table(grid) => grid.codes.len(),
        }
    }

    /// The value of a code; NaN for a code beyond the last.
    #[must_use]
    pub fn decode(&self, code: u16) -> f32 {
        match self {
            Self::Minifloat(grid) => grid.decode(code),
            Self::Table(grid) => grid.codes.get(usize::from(code)).copied().unwrap_or(f32::NAN),
        }
    }

    /// The finite values, ascending, each once; zero has either sign.
    #[must_use]
    pub fn finite_values(&self) -> Vec<f32> {
        match self {
            Self::Minifloat(grid) => {
                let positive = || (0..=grid.max_code()).map(|code| grid.decode(code));
                positive().skip(1).map(|value| -value).rev().chain(positive()).collect()
            }
            Self::Table(grid) => grid.sorted.clone(),
        }
    }

    /// Largest finite value.
    #[must_use]
    pub fn max_finite(&self) -> f32 {
        match self {
            Self::Minifloat(grid) => grid.max_finite(),
            Self::Table(grid) => grid.sorted.last().copied().unwrap_or(f32::NAN),
        }
    }

    /// Smallest finite value, the most negative.
    #[must_use]
    pub fn min_finite(&self) -> f32 {
        match self {
            Self::Minifloat(grid) => -grid.max_finite(),
            Self::Table(grid) => grid.sorted.first().copied().unwrap_or(f32::NAN),
        }
    }

    /// Smallest positive value.
    #[must_use]
    pub fn min_positive(&self) -> f32 {
        match self {
            Self::Minifloat(grid) => grid.decode(1),
            Self::Table(grid) => grid.sorted.iter().copied().find(|value| *value > 0.0).unwrap_or(f32::NAN),
        }
    }

    /// The gap from `w` to the next value away from zero; NaN unless `w` is finite.
    ///
    /// Beyond the largest value a minifloat continues as if it had more binades; a table keeps its last gap.
    #[must_use]
    pub fn spacing(&self, w: f64) -> f64 {
        match self {
            Self::Minifloat(grid) => grid.spacing(w),
            Self::Table(grid) => grid.spacing(w),
        }
    }

    /// Code coordinate, with slope 1/spacing: neighbouring values differ by 1. A minifloat value has its signed code as
    /// coordinate. NaN and infinities are returned as they are.
    #[must_use]
    pub fn coordinate(&self, w: f64) -> f64 {
        match self {
            Self::Minifloat(grid) => grid.phi(w),
            Self::Table(grid) => grid.coordinate(w),
        }
    }

    /// The value at a code coordinate: the inverse of [`Self::coordinate`].
    #[must_use]
    pub fn value_at(&self, u: f64) -> f64 {
        match self {
            Self::Minifloat(grid) => grid.phi_inverse(u),
            Self::Table(grid) => grid.value_at(u),
        }
    }
}

/// A format given by its decode table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableGrid {
    /// Values, indexed by code.
    codes: Vec<f32>,
    /// Finite values, ascending, each once.
    sorted: Vec<f32>,
    /// Index of the value that has coordinate 0: zero, or the smallest magnitude.
    origin: usize,
}

impl TableGrid {
    /// The grid of a decode table. Errors as in [`ValueGrid::new`].
    fn new(codes: &[f32]) -> Result<Self, PluginError> {
        let mut sorted: Vec<f32> = codes.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f32::total_cmp);
        sorted.dedup_by(|a, b| a == b);
        if !codes.len().is_power_of_two() || codes.len() > 1 << 16 || sorted.len() < 2 {
            return Err(PluginError::config(format!(
                "a decode table of {} codes with {} finite values: 2^bits codes (at most 2^16) with two values at least",
                codes.len(),
                sorted.len()
            )));
        }
        if sorted.last().is_some_and(|largest| *largest <= 0.0) {
            return Err(PluginError::config("a decode table without a finite value above 0"));
        }
        let magnitude = |index: &usize| sorted[*index].abs();
        let origin = (0..sorted.len()).min_by(|a, b| magnitude(a).total_cmp(&magnitude(b))).unwrap_or(0);
        Ok(Self { codes: codes.to_vec(), sorted, origin })
    }

    /// Index of the cell `[i, i + 1]` that contains `w`; the outermost cells extend to infinity. A value on the grid
    /// belongs to the cell on its side away from zero.
    fn cell(&self, w: f64) -> usize {
        let above = if w < 0.0 {
            self.sorted.partition_point(|value| f64::from(*value) < w)
        } else {
            self.sorted.partition_point(|value| f64::from(*value) <= w)
        };
        above.clamp(1, self.sorted.len() - 1) - 1
    }

    fn spacing(&self, w: f64) -> f64 {
        if !w.is_finite() {
            return f64::NAN;
        }
        let cell = self.cell(w);
        f64::from(self.sorted[cell + 1]) - f64::from(self.sorted[cell])
    }

    fn coordinate(&self, w: f64) -> f64 {
        if !w.is_finite() {
            return w;
        }
        let cell = self.cell(w);
        let low = f64::from(self.sorted[cell]);
        cell as f64 - self.origin as f64 + (w - low) / self.spacing(w)
    }

    fn value_at(&self, u: f64) -> f64 {
        if !u.is_finite() {
            return u;
        }
        let rank = u + self.origin as f64;
        let cell = rank.floor().clamp(0.0, (self.sorted.len() - 2) as f64);
        let low = f64::from(self.sorted[cell as usize]);
        low + (rank - cell) * (f64::from(self.sorted[cell as usize + 1]) - low)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Domain, grid::minifloat};

    /// E4M3 as a minifloat and as its own decode table.
    fn twins() -> [ValueGrid; 2] {
        let spec = minifloat(4, 3, Domain::FN).unwrap();
        let grid = ValueGrid::new(&FormatSpec::Minifloat(spec)).unwrap();
        let table = (0..256).map(|code| grid.decode(code)).collect();
        [grid, ValueGrid::new(&FormatSpec::Table(table)).unwrap()]
    }

    #[test]
    fn a_table_has_the_geometry_of_the_minifloat_it_lists() {
        let [minifloat, table] = twins();
        assert_eq!(table.max_finite(), 448.0);
        assert_eq!(minifloat.finite_values(), table.finite_values());
        assert_eq!(minifloat.min_positive(), table.min_positive());
        assert_eq!((minifloat.min_finite(), table.min_finite()), (-448.0, -448.0));
        for w in [0.0, 0.001, -0.001, 0.0137, 0.5, -0.5, 0.75, 1.1, -3.3, 447.0, -448.0] {
            assert_eq!(minifloat.spacing(w), table.spacing(w), "spacing at {w}");
            let (a, b) = (minifloat.coordinate(w), table.coordinate(w));
            assert!((a - b).abs() < 1e-9, "coordinate at {w}: {a}, {b}");
            assert!((table.value_at(b) - w).abs() < 1e-12, "inverse at {w}");
        }
    }

    #[test]
    fn neighbouring_values_are_one_apart() {
        let [_, table] = twins();
        let ValueGrid::Table(grid) = &table else { return };
        for (index, value) in grid.sorted.iter().enumerate() {
            assert_eq!(table.coordinate(f64::from(*value)), index as f64 - grid.origin as f64);
        }
    }

    #[test]
    fn impossible_tables_are_refused() {
        let refused = |values: Vec<f32>| ValueGrid::new(&FormatSpec::Table(values.into())).is_err();
        assert!(refused(vec![0.0, 1.0, 2.0]));
        assert!(refused(vec![0.0, f32::NAN]));
        // Without a positive value there is no magnitude to scale to.
        assert!(refused(vec![0.0, -1.0, -2.0, f32::INFINITY]));
        assert!(!refused(vec![0.0, 1.0]));
    }
}
