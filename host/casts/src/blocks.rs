//! The blocks of a matrix: sets of elements that share a scale.
//!
//! Blocks run along one axis, that of the contraction of a matrix product. Blocks at the end of an axis may be cut off:
//! padding would be zero and change no largest magnitude (OCP MX v1.0 has whole blocks only; microxcaling and
//! Transformer Engine's references pad with zeros).

use std::ops::Range;

use altgrad_plugin_api::Blocks;

use crate::{CastError, shape::Shape};

impl Shape {
    /// Refuses anything but `elements` elements, at least one.
    ///
    /// # Errors
    /// [`CastError::Elements`].
    pub fn check(self, elements: usize) -> Result<(), CastError> {
        if elements > 0 && self.rows.checked_mul(self.columns) == Some(elements) {
            Ok(())
        } else {
            Err(CastError::Elements { elements, shape: self })
        }
    }
}

/// The axis that blocks and transforms run along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Within a row: neighbours in a block are neighbours in memory.
    Rows,
    /// Within a column.
    Columns,
}

/// The set of elements that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// No blocks: scale 1, elements are rounded as they are.
    None,
    /// All elements.
    Tensor,
    /// The elements of one line of the axis: a row for [`Axis::Rows`].
    Row,
    /// This many elements along the axis, at least 1: 32 in OCP MX v1.0 section 5.2, 16 in NVFP4 (arXiv:2509.25149),
    /// 128 for activations of DeepSeek-V3 (arXiv:2412.19437, section 3.3.2).
    Along(usize),
    /// A tile: `[lines, elements along the axis]`, each at least 1. 128 x 128 for weights of DeepSeek-V3, 16 x 16 for
    /// NVFP4's.
    Tile([usize; 2]),
}

/// The blocks of a matrix, numbered row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockGrid {
    /// The matrix.
    pub shape: Shape,
    /// Rows and columns of a block; those at the end of an axis may be smaller.
    pub block: [usize; 2],
}

impl BlockGrid {
    /// The blocks of a matrix whose blocks run along `axis`.
    #[must_use]
    pub fn new(block: Block, shape: Shape, axis: Axis) -> Self {
        let Shape { rows, columns } = shape;
        let length = if axis == Axis::Rows { columns } else { rows };
        let [across, along] = match block {
            Block::None | Block::Tensor => return Self { shape, block: [rows, columns] },
            Block::Row => [1, length],
            Block::Along(along) => [1, along.max(1)],
            Block::Tile([across, along]) => [across.max(1), along.max(1)],
        };
        Self { shape, block: if axis == Axis::Rows { [across, along] } else { [along, across] } }
    }

    /// Rows and columns of blocks: the shape of the scales.
    #[must_use]
    pub fn counts(&self) -> [usize; 2] {
        [self.shape.rows.div_ceil(self.block[0]), self.shape.columns.div_ceil(self.block[1])]
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.counts().into_iter().product()
    }

    /// The block of `outer`, whose blocks are made of whole blocks of this grid, that a block lies in.
    pub(crate) fn within(&self, block: usize, outer: &Self) -> usize {
        let per_row = self.counts()[1];
        let [row, column] = [block / per_row * self.block[0], block % per_row * self.block[1]];
        row / outer.block[0] * outer.counts()[1] + column / outer.block[1]
    }

    /// The same as the plugins' description of blocks.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        Blocks {
            columns: self.shape.columns as u64,
            block_rows: self.block[0] as u64,
            block_columns: self.block[1] as u64,
        }
    }

    /// The elements of a block, line by line of the axis; zeros beyond the matrix, so that all blocks have as many.
    /// `buffer` is for those that are not neighbours.
    pub(crate) fn elements<'a>(
        &self,
        values: &'a [f32],
        block: usize,
        axis: Axis,
        buffer: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        let (Shape { rows, columns }, [high, wide]) = (self.shape, self.block);
        let per_row = self.counts()[1];
        let (first_row, first_column) = (block / per_row * high, block % per_row * wide);
        if axis == Axis::Rows && high == 1 && first_column + wide <= columns {
            return &values[first_row * columns + first_column..][..wide];
        }
        buffer.clear();
        let [lines, along] = if axis == Axis::Rows { [high, wide] } else { [wide, high] };
        for line in 0..lines {
            buffer.extend((0..along).map(|i| {
                let [row, column] = if axis == Axis::Rows { [line, i] } else { [i, line] };
                let (row, column) = (first_row + row, first_column + column);
                if row < rows && column < columns { values[row * columns + column] } else { 0.0 }
            }));
        }
        buffer
    }

    /// Calls `f` for each of [`Self::runs`]; compiled into the caller, for its registers.
    #[inline(always)]
    pub(crate) fn each_run(&self, mut f: impl FnMut(usize, Range<usize>)) {
        let (Shape { rows, columns }, [block_rows, block_columns]) = (self.shape, self.block);
        let per_row = self.counts()[1];
        for row in 0..rows {
            let (block, start) = (row / block_rows * per_row, row * columns);
            for index in 0..per_row {
                let first = index * block_columns;
                f(block + index, start + first..start + (first + block_columns).min(columns));
            }
        }
    }

    /// Consecutive elements of one block each, in row-major order: the block, and their indices.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let (Shape { rows, columns }, [block_rows, block_columns]) = (self.shape, self.block);
        let per_row = self.counts()[1];
        (0..rows).flat_map(move |row| {
            (0..per_row).map(move |block| {
                let first = block * block_columns;
                let last = (first + block_columns).min(columns);
                (row / block_rows * per_row + block, row * columns + first..row * columns + last)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { rows: 3, columns: 5 };

    fn blocks_of(block: Block, axis: Axis) -> ([usize; 2], Vec<usize>) {
        let layout = BlockGrid::new(block, SHAPE, axis);
        let mut of = vec![usize::MAX; 15];
        layout.runs().for_each(|(block, range)| of[range].fill(block));
        // The plugins' description agrees.
        let blocks = layout.blocks();
        assert!((0..15).all(|i| blocks.of(i) as usize == of[i as usize]), "{layout:?}");
        (layout.counts(), of)
    }

    #[test]
    #[rustfmt::skip]
    fn blocks_run_along_the_axis_and_are_cut_off_at_its_end() {
        assert_eq!(blocks_of(Block::Tensor, Axis::Rows), ([1, 1], vec![0; 15]));
        assert_eq!(blocks_of(Block::Row, Axis::Rows), ([3, 1], vec![0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]));
        assert_eq!(blocks_of(Block::Row, Axis::Columns), ([1, 5], [0, 1, 2, 3, 4].repeat(3)));
        assert_eq!(blocks_of(Block::Along(2), Axis::Rows), ([3, 3], vec![0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 6, 6, 7, 7, 8]));
        assert_eq!(blocks_of(Block::Along(2), Axis::Columns), ([2, 5], vec![0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        // Two lines of three elements: two rows of three columns, or two columns of three rows.
        assert_eq!(blocks_of(Block::Tile([2, 3]), Axis::Rows), ([2, 2], vec![0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3]));
        assert_eq!(blocks_of(Block::Tile([2, 3]), Axis::Columns), ([1, 3], [0, 0, 1, 1, 2].repeat(3)));
        assert_eq!(blocks_of(Block::Along(100), Axis::Rows).0, [3, 1]);
    }

    #[test]
    fn blocks_lie_within_larger_ones() {
        for (axis, expected) in
            [(Axis::Rows, vec![0, 0, 1, 2, 2, 3, 4, 4, 5]), (Axis::Columns, [0, 1, 2, 3, 4].repeat(2))]
        {
            let [inner, outer] = [2, 4].map(|along| BlockGrid::new(Block::Along(along), SHAPE, axis));
            let found: Vec<usize> = (0..inner.count()).map(|block| inner.within(block, &outer)).collect();
            assert_eq!(found, expected, "{axis:?}");
        }
    }

    #[test]
    fn shapes_have_as_many_elements_as_they_say() {
        assert!(SHAPE.check(15).is_ok());
        for (shape, elements) in [
            (SHAPE, 14),
            (Shape { rows: 0, columns: 5 }, 0),
            (Shape { rows: usize::MAX, columns: 2 }, usize::MAX - 1),
        ] {
            assert_eq!(shape.check(elements), Err(CastError::Elements { elements, shape }));
        }
    }
}
