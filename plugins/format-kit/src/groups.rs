//! Groups of elements, which a compiler turns into registers of any width, and rows of groups.

/// Elements a group: one AVX-512 register, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Groups a row, after which f32 sums are added to f64 ones. A lane's relative error is at most 2^-24 for each of seven
/// additions, for the product, and twice for the squared difference: 6e-7.
pub(crate) const ROW: usize = 8;

/// A group of elements.
pub(crate) type Group<T> = [T; LANES];
