//! The extents of tiles of queries, keys and values in the shared memory of a GPU's cube.

/// Numbers of a query that are saved: the largest score, the inverse of the sum of exponentials, the entropy.
pub(super) const STATS: usize = 3;
/// Bytes at whose multiples tiles begin; tensor cores read from multiples of 32.
pub(super) const ALIGNMENT: usize = 128;
/// Arrays in the shared memory of a kernel, at most.
const ARRAYS: usize = 9;

/// The extents of the tiles of a kernel, known when it is compiled.
///
/// A row is padded, so that rows that are read at once begin in different banks of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tiling {
    /// Width of a head.
    pub(super) width: usize,
    /// Queries, and keys, of a tile; a power of two.
    pub(super) side: usize,
    /// Units of a cube, a multiple of `side`: those of a row of scores are neighbours.
    pub(super) units: usize,
    /// Columns of a tile of queries, keys or values; those from `width` on are zeros.
    pub(super) columns: usize,
    /// Elements from a row of queries, keys or values to the next.
    pub(super) row: usize,
    /// Elements from a row of scores to the next.
    pub(super) score_row: usize,
    /// Elements from a row of what is multiplied with keys, values and gradients to the next.
    pub(super) weight_row: usize,
    /// Elements from a row of sums to the next.
    pub(super) sum_row: usize,
}

impl Tiling {
    /// Elements of a tile of queries, keys or values.
    pub(super) const fn rows(&self) -> usize {
        self.side * self.row
    }

    /// Elements of a tile of scores. The sums take its place at the end.
    pub(super) const fn scores(&self) -> usize {
        self.side * if self.score_row > self.sum_row { self.score_row } else { self.sum_row }
    }

    /// Elements of a tile of weights.
    pub(super) const fn weights(&self) -> usize {
        self.side * self.weight_row
    }

    /// Units of a row of scores.
    pub(super) const fn lanes(&self) -> usize {
        self.units / self.side
    }

    /// Bytes of shared memory that the largest of the kernels takes, with operands of so many bytes.
    pub(super) const fn bytes(&self, operand: usize) -> usize {
        let operands = 4 * self.rows() + 2 * self.weights();
        operand * operands + size_of::<f32>() * (2 * self.scores() + self.units) + ARRAYS * ALIGNMENT
    }
}
