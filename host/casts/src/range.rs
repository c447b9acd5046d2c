//! The range of a number format, from which scales follow.

use altgrad_plugin_api::{Conventions, ValueGrid};

use crate::powers::{LEAST_DECODE, floor_log2};

/// The properties of a format that the scales of a block need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The magnitude to which the largest of a block is scaled, above 0: the format's declared target, or its largest
    /// finite value.
    pub target: f32,
    /// Stored significand bits; `None` for a table.
    pub significand_bits: Option<u32>,
    /// The exponent of the smallest normal number of a minifloat.
    pub emin: i32,
    /// The largest finite magnitude.
    pub largest: f32,
    /// The least encode scale: smaller ones would scale the format's largest value back to infinity.
    pub least_encode: f32,
    /// The exponent of the largest power of two by which the format's largest value stays finite.
    pub most_exponent: i32,
}

impl Range {
    /// The range of a format with these values and conventions.
    #[must_use]
    pub fn new(values: &ValueGrid, conventions: &Conventions) -> Self {
        let (significand_bits, emin) = match values {
            ValueGrid::Minifloat(grid) => (Some(grid.spec().significand_bits), grid.emin()),
            ValueGrid::Table(_) => (None, 0),
        };
        Self { significand_bits, emin, ..Self::of(conventions.target(values), largest_magnitude(values)) }
    }

    /// The range of values up to `largest`, the largest of a block being scaled to `target`; both above 0.
    #[must_use]
    pub fn of(target: f32, largest: f32) -> Self {
        let is_finite =
            |encode: f32| (largest * (1.0 / encode)).is_finite() && (largest / encode).is_finite();
        let mut least_encode = (largest / f32::MAX).max(LEAST_DECODE);
        while !is_finite(least_encode) {
            least_encode = least_encode.next_up();
        }
        let most_exponent = 127 - floor_log2(largest);
        Self { target, significand_bits: None, emin: 0, largest, least_encode, most_exponent }
    }

    /// `emax` of OCP MX v1.0 section 6.3: the exponent of the largest power of two up to `target`. 8 for E4M3, 15 for
    /// E5M2, 2 for E2M1 and E2M3, 4 for E3M2, 0 for MX's INT8.
    #[must_use]
    pub fn emax(&self) -> i32 {
        floor_log2(self.target)
    }
}

/// Two steps of f32 beyond the least and the largest value.
pub(crate) fn bounds([least, most]: [f32; 2]) -> [f32; 2] {
    [least.next_down().next_down(), most.next_up().next_up()]
}

/// The largest finite magnitude of either sign.
fn largest_magnitude(values: &ValueGrid) -> f32 {
    match values {
        ValueGrid::Minifloat(grid) => grid.max_finite(),
        ValueGrid::Table(_) => values.finite_values().iter().fold(0.0, |most, value| value.abs().max(most)),
    }
}
