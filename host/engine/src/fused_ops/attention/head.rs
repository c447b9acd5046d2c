//! The layout of attention: its shape, its blocks of queries, and one head of one sequence.

use crate::matrix::{self, Matrix, MatrixMut};

/// Queries computed at once.
pub(super) const QUERY_BLOCK: usize = 64;

/// The extents of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Number of sequences.
    pub batch: usize,
    /// Positions of a sequence.
    pub block: usize,
    /// Number of heads.
    pub heads: usize,
    /// Width of all heads together; a multiple of `heads`.
    pub width: usize,
}

impl AttentionShape {
    /// Width of a head.
    pub(in crate::fused_ops) fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// The factor of the scores: `1 / sqrt(head width)`.
    pub(super) fn scale(&self) -> f32 {
        (1.0 / (self.head_width() as f64).sqrt()) as f32
    }

    /// The blocks of queries: the first query and the end, which is also the end of their keys.
    pub(super) fn query_blocks(&self) -> impl Iterator<Item = (usize, usize)> {
        let block = self.block;
        (0..block).step_by(QUERY_BLOCK).map(move |first| (first, (first + QUERY_BLOCK).min(block)))
    }

    /// Elements of a sequence's scores over all heads: `heads * block * block`.
    pub(super) fn score_elements(&self) -> usize {
        self.heads * self.block * self.block
    }
}

/// One head of one sequence.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) shape: AttentionShape,
    /// Number of the head.
    pub(super) index: usize,
    /// Queries, keys and values of all heads, `[block, 3 width]`.
    pub(super) qkv: &'a [f32],
    /// The dropout mask of the sequence, `[heads, block, block]`.
    pub(super) mask: Option<&'a [f32]>,
}

impl<'a> Head<'a> {
    /// Rows `first..end` of queries (0), keys (1) or values (2).
    pub(super) fn part(&self, which: usize, first: usize, end: usize) -> Matrix<'a> {
        let AttentionShape { width, .. } = self.shape;
        let start = first * 3 * width + which * width + self.index * self.shape.head_width();
        Matrix::rows(&self.qkv[start..], end - first, self.shape.head_width(), 3 * width)
    }

    /// Unscaled scores: `q k^T` of queries `first..end` and keys `0..keys`, `[end - first, keys]`.
    pub(super) fn scores(&self, (first, end): (usize, usize), keys: usize, to: &mut [f32]) {
        let to = MatrixMut::rows(to, end - first, keys, keys);
        matrix::multiply(to, self.part(0, first, end), self.part(1, 0, keys).transposed(), false);
    }

    /// The mask of query `row`, up to `end`.
    pub(super) fn mask(&self, row: usize, end: usize) -> Option<&'a [f32]> {
        let start = (self.index * self.shape.block + row) * self.shape.block;
        self.mask.map(|mask| &mask[start..start + end])
    }
}

/// Fills the future of each row with zeros and calls `each` with the row's query and its past. Row i of `x`, `keys`
/// wide, is query `first + i`.
pub(super) fn causal_rows(x: &mut [f32], first: usize, keys: usize, mut each: impl FnMut(usize, &mut [f32])) {
    for (row, x) in x.chunks_exact_mut(keys).enumerate() {
        let (past, future) = x.split_at_mut((first + row + 1).min(keys));
        each(first + row, past);
        future.fill(0.0);
    }
}
