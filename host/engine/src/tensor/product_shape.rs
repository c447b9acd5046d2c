//! The shape of a matrix product, and how its factors are stored.

use std::fmt;

/// Rows, columns and terms of a product, and whether its factors are stored by columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Rows, columns, terms.
    pub sides: [usize; 3],
    /// The factors that are transposed views.
    pub transposed: [bool; 2],
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns, terms] = self.sides;
        let mark = |transposed| if transposed { "^T" } else { "" };
        let [a, b] = self.transposed.map(mark);
        write!(f, "{rows} x {terms}{a} by {terms} x {columns}{b}")
    }
}
