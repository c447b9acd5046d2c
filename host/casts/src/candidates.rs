//! The candidates of a block's scale, and the error by which it chooses among them.

/// The error of a block: `v` are the values after rounding and scaling back, `x` the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorNorm {
    /// The sum of `(v - x)^2`.
    Squares,
    /// The sum of `|v - x|`.
    Magnitudes,
    /// The largest `|v - x|`.
    Largest,
}

/// The candidates of a block's scale, and the choice among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleChoice {
    /// Compared errors.
    pub norm: ErrorNorm,
    /// Factors of the decode scale before it is rounded to its type; 0 stands for none. The first wins ties, and
    /// comparisons with NaN.
    pub factors: [f32; 4],
    /// True if ties of elements go away from zero in the errors, as in Quartet II, otherwise to even.
    pub ties_away: bool,
}

impl ScaleChoice {
    /// Four over six: the largest magnitude becomes 6 or 4 of E2M1.
    pub const FOUR_OVER_SIX: [f32; 4] = [1.0, 1.5, 0.0, 0.0];
}
