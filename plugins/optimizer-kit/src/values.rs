//! The geometry of any format, decode tables among them: searched, in f64, an element at a time.

use altgrad_plugin_api::{FormatSpec, PluginError, ValueGrid};

use crate::{
    codes::Codes,
    rule::{Chart, Geometry},
};

/// The geometry of a format.
#[derive(Debug)]
pub enum GridGeometry {
    /// Fast.
    Codes(Codes),
    /// Any other grid.
    Values(SortedValues),
}

impl GridGeometry {
    /// The geometry a format's description has.
    ///
    /// # Errors
    /// As [`ValueGrid::new`].
    pub fn new(spec: &FormatSpec) -> Result<Self, PluginError> {
        let grid = ValueGrid::new(spec)?;
        if let ValueGrid::Minifloat(minifloat) = &grid
            && let Some(codes) = Codes::new(minifloat)
        {
            return Ok(Self::Codes(codes));
        }
        Ok(Self::Values(SortedValues::new(grid)))
    }
}

/// A set of values that is searched.
#[derive(Debug)]
pub struct SortedValues {
    grid: ValueGrid,
    ends: (f32, f32),
}

impl SortedValues {
    /// The geometry of `grid`.
    #[must_use]
    pub fn new(grid: ValueGrid) -> Self {
        Self { ends: (grid.min_finite(), grid.max_finite()), grid }
    }
}

impl Geometry for &SortedValues {
    fn spacing(&self, x: f32) -> f32 {
        self.grid.spacing(x.into()) as f32
    }

    fn log2_spacing(&self, x: f32) -> f32 {
        self.grid.spacing(x.into()).log2() as f32
    }
}

impl Chart for &SortedValues {
    fn ends(&self) -> (f32, f32) {
        self.ends
    }

    fn moved(&self, x: f32, codes: f32) -> f32 {
        let u = self.grid.coordinate(x.into()) + f64::from(codes);
        let (low, high) = self.ends;
        // An infinite coordinate has an infinite value.
        (self.grid.value_at(u) as f32).clamp(low, high)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, grid::minifloat};

    use super::*;

    /// Codes of two's complement: one more value below zero than above.
    fn integers() -> SortedValues {
        let table: Vec<f32> =
            (0..16).map(|code| if code < 8 { code as f32 } else { code as f32 - 16.0 }).collect();
        SortedValues::new(ValueGrid::new(&FormatSpec::Table(table.into())).unwrap())
    }

    #[test]
    fn the_search_agrees_with_bit_arithmetic() {
        let spec = FormatSpec::Minifloat(minifloat(4, 3, Domain::FN).unwrap());
        let GridGeometry::Codes(codes) = GridGeometry::new(&spec).unwrap() else {
            panic!("E4M3 is a minifloat")
        };
        let values = &SortedValues::new(ValueGrid::new(&spec).unwrap());
        assert_eq!(codes.ends(), values.ends());
        for i in -4480..=4480 {
            let x = i as f32 * 0.1;
            assert_eq!(codes.spacing(x), values.spacing(x));
            assert_eq!(codes.log2_spacing(x), values.log2_spacing(x));
            for step in [0.0, 0.1, -0.1, 5.0, -1000.0] {
                let (fast, slow) = (codes.moved(x, step), values.moved(x, step));
                assert!((fast - slow).abs() <= 2.0 * f32::EPSILON * slow.abs().max(x.abs()), "{x} by {step}");
            }
        }
    }

    #[test]
    fn a_table_ends_where_its_values_end() {
        let values = &integers();
        assert_eq!(values.ends(), (-8.0, 7.0));
        assert_eq!((values.moved(-7.5, -3.0), values.moved(6.0, f32::INFINITY)), (-8.0, 7.0));
        assert_eq!((values.moved(-1.0, 2.5), values.moved(3.0, 0.0)), (1.5, 3.0));
        assert!(values.moved(1.0, f32::NAN).is_nan());
    }
}
