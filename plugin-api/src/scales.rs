//! Scales of a tensor: their values, and the blocks of elements that share one.
//!
//! A format's values span a fixed range, so a tensor is multiplied by a scale before it is rounded and by the inverse
//! afterwards. Elements that share a scale form a block. One description covers the usual choices: a whole tensor, a
//! row (channel), consecutive elements (MX: 32, NVFP4: 16), columns, and two-dimensional tiles (DeepSeek-V3: 128 x
//! 128). Definitions: docs/numerics.md, section 4.

use std::ops::Range;

use crate::stable::{StableAbi, std_types::RSlice};

use crate::PluginError;

/// The split of a tensor into blocks: as a matrix, row by row, into tiles of `block_rows` rows and `block_columns`
/// columns.
///
/// Tiles at the right and at the bottom may be smaller. Blocks are numbered row by row.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Elements of a row of the matrix, at least 1. The last row may be shorter.
    pub columns: u64,
    /// Rows of a block, at least 1.
    pub block_rows: u64,
    /// Columns of a block, at least 1.
    pub block_columns: u64,
}

impl Blocks {
    /// One block: the whole tensor.
    pub const WHOLE: Self = Self::consecutive(u64::MAX);

    /// Blocks of `elements` consecutive elements, independent of rows; the last may be shorter.
    #[must_use]
    pub const fn consecutive(elements: u64) -> Self {
        Self { columns: u64::MAX, block_rows: 1, block_columns: elements }
    }

    /// The block of the element with this index.
    #[must_use]
    pub const fn of(&self, element: u64) -> u64 {
        let (row, column) = (element / self.columns, element % self.columns);
        row / self.block_rows * self.columns.div_ceil(self.block_columns) + column / self.block_columns
    }

    /// Number of blocks of a tensor of `elements` elements.
    #[must_use]
    pub const fn count(&self, elements: u64) -> u64 {
        match elements.checked_sub(1) {
            None => 0,
            Some(last) if last < self.columns => self.of(last) + 1,
            Some(last) => {
                (last / self.columns / self.block_rows + 1) * self.columns.div_ceil(self.block_columns)
            }
        }
    }

    /// Elements of a block of a tensor of `elements` elements.
    #[must_use]
    pub fn len_of(&self, block: u64, elements: u64) -> u64 {
        let per_row = self.columns.div_ceil(self.block_columns);
        let (row, column) = (block / per_row * self.block_rows, block % per_row * self.block_columns);
        // Whole rows, and the elements of a partial row.
        let (rows, rest) = (elements / self.columns, elements % self.columns);
        let whole = rows.saturating_sub(row).min(self.block_rows);
        let is_at_rest = row <= rows && rows - row < self.block_rows;
        let part = if is_at_rest { rest.saturating_sub(column).min(self.block_columns) } else { 0 };
        whole * self.block_columns.min(self.columns - column) + part
    }
}

/// The scales of a tensor, for a call on some consecutive elements.
///
/// Owner: the caller, for the call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct Scales<'a> {
    /// `[blocks, 2]`: each block's scale, by which values are multiplied before rounding, and its inverse, by which
    /// they are multiplied afterwards.
    ///
    /// Both are rounded to f32. A scale is finite and positive, and its inverse at least 0. With
    /// `scaling.nonfinite = "poison"`, both are NaN in a block with a NaN or an infinity.
    pub pairs: RSlice<'a, [f32; 2]>,
    /// The blocks of elements that share a scale.
    pub blocks: Blocks,
    /// Index of the call's first element within the tensor.
    pub first: u64,
}

impl Scales<'static> {
    /// Scale 1 for the whole tensor.
    pub const ONE: Self = Scales::whole(&[1.0, 1.0]);
}

impl<'a> Scales<'a> {
    /// One scale, with its inverse, for the whole tensor.
    #[must_use]
    pub const fn whole(pair: &'a [f32; 2]) -> Self {
        Self { pairs: RSlice::from_slice(std::slice::from_ref(pair)), blocks: Blocks::WHOLE, first: 0 }
    }

    /// A scale with its inverse for each block, for a call that begins with the tensor's first element.
    #[must_use]
    pub const fn new(pairs: &'a [[f32; 2]], blocks: Blocks) -> Self {
        Self { pairs: RSlice::from_slice(pairs), blocks, first: 0 }
    }

    /// The scales of a call that begins `elements` later.
    #[must_use]
    pub const fn skip(self, elements: u64) -> Self {
        Self { first: self.first + elements, ..self }
    }

    /// The pair that all elements share, if there is only one.
    #[must_use]
    pub fn single(&self) -> Option<[f32; 2]> {
        match self.pairs.as_slice() {
            &[pair] => Some(pair),
            _ => None,
        }
    }

    /// Scale and inverse of the call's element `i`.
    #[must_use]
    pub fn of(&self, i: u64) -> [f32; 2] {
        self.pairs[self.blocks.of(self.first + i) as usize]
    }

    /// The longest runs of the call's `elements` consecutive elements that share a scale within a row: their range, and
    /// the scale with its inverse. Call [`Self::check`] first.
    #[must_use]
    pub fn runs(&self, elements: usize) -> Runs<'a> {
        let Blocks { columns, block_rows, block_columns } = self.blocks;
        let (row, column) = (self.first / columns, self.first % columns);
        let blocks_per_row = columns.div_ceil(block_columns);
        Runs {
            scales: *self,
            next: 0,
            elements,
            left_in_row: columns - column,
            left_in_block: block_columns - column % block_columns,
            rows_left: block_rows - row % block_rows,
            first_block: row / block_rows * blocks_per_row,
            block: row / block_rows * blocks_per_row + column / block_columns,
        }
    }

    /// Refuses scales that do not cover the call's `elements` elements.
    ///
    /// # Errors
    /// `SHAPE`: a block without extent, or fewer scales than blocks.
    pub fn check(&self, elements: usize) -> Result<(), PluginError> {
        let Blocks { columns, block_rows, block_columns } = self.blocks;
        if columns == 0 || block_rows == 0 || block_columns == 0 {
            return Err(PluginError::shape(format!("scales in blocks of {block_rows} x {block_columns}")));
        }
        let needed = match elements.checked_sub(1) {
            None => 0,
            Some(last) => self.blocks.count(self.first.saturating_add(last as u64).saturating_add(1)),
        };
        if (self.pairs.len() as u64) < needed {
            let message = format!("{} scales for {needed} blocks", self.pairs.len());
            return Err(PluginError::shape(message));
        }
        Ok(())
    }
}

/// Runs of elements that share a scale: [`Scales::runs`].
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    scales: Scales<'a>,
    /// The first element of the next run.
    next: usize,
    elements: usize,
    left_in_row: u64,
    left_in_block: u64,
    /// Rows of the current blocks, this one included.
    rows_left: u64,
    /// The first block of this row.
    first_block: u64,
    block: u64,
}

impl Iterator for Runs<'_> {
    type Item = (Range<usize>, [f32; 2]);

    /// Without divisions: runs may be short.
    fn next(&mut self) -> Option<Self::Item> {
        let left = (self.elements - self.next) as u64;
        if left == 0 {
            return None;
        }
        let run = left.min(self.left_in_block).min(self.left_in_row);
        let range = self.next..self.next + run as usize;
        let pair = self.scales.pairs[self.block as usize];
        self.next = range.end;
        (self.left_in_row, self.left_in_block) = (self.left_in_row - run, self.left_in_block - run);
        let Blocks { columns, block_rows, block_columns } = self.scales.blocks;
        if self.left_in_row == 0 {
            self.rows_left -= 1;
            if self.rows_left == 0 {
                (self.rows_left, self.first_block) =
                    (block_rows, self.first_block + columns.div_ceil(block_columns));
            }
            (self.left_in_row, self.left_in_block) = (columns, block_columns);
            self.block = self.first_block;
        } else if self.left_in_block == 0 {
            self.left_in_block = block_columns;
            self.block += 1;
        }
        Some((range, pair))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Blocks of each element, by looking at rows and columns.
    fn blocks_of(blocks: Blocks, elements: u64) -> Vec<u64> {
        (0..elements).map(|element| blocks.of(element)).collect()
    }

    #[test]
    fn elements_share_scales_by_tile() {
        let tiles = Blocks { columns: 5, block_rows: 2, block_columns: 2 };
        #[rustfmt::skip]
        let expected = [
            0, 0, 1, 1, 2,
            0, 0, 1, 1, 2,
            3, 3, 4, 4, 5,
        ];
        assert_eq!(blocks_of(tiles, 15), expected);
        assert_eq!([0, 1, 5, 10, 11, 15].map(|elements| tiles.count(elements)), [0, 1, 3, 3, 6, 6]);
        assert_eq!(blocks_of(Blocks::consecutive(3), 7), [0, 0, 0, 1, 1, 1, 2]);
        assert_eq!(Blocks::consecutive(3).count(7), 3);
        assert_eq!((Blocks::WHOLE.count(1 << 40), Blocks::WHOLE.count(0)), (1, 0));
        assert_eq!(
            blocks_of(Blocks { columns: 2, block_rows: 2, block_columns: 1 }, 8),
            [0, 1, 0, 1, 2, 3, 2, 3]
        );
    }

    const LAYOUTS: [Blocks; 4] = [
        Blocks { columns: 5, block_rows: 2, block_columns: 2 },
        Blocks { columns: 7, block_rows: 1, block_columns: 32 },
        Blocks { columns: 3, block_rows: 4, block_columns: 1 },
        Blocks::consecutive(4),
    ];

    #[test]
    fn blocks_have_the_elements_that_are_in_them() {
        let columns = Blocks { columns: 6, block_rows: u64::MAX, block_columns: 1 };
        for blocks in LAYOUTS.into_iter().chain([Blocks::WHOLE, columns]) {
            for elements in 0..40 {
                let of = blocks_of(blocks, elements);
                for block in 0..blocks.count(elements) {
                    let expected = of.iter().filter(|&&other| other == block).count() as u64;
                    assert_eq!(blocks.len_of(block, elements), expected, "{blocks:?} {block} of {elements}");
                }
            }
        }
    }

    #[test]
    fn runs_are_those_of_single_elements() {
        let pairs: Vec<[f32; 2]> = (1..40).map(|i| [i as f32, 1.0 / i as f32]).collect();
        for blocks in LAYOUTS {
            for first in 0..12 {
                let scales = Scales::new(&pairs, blocks).skip(first);
                scales.check(20).unwrap();
                let runs: Vec<_> = scales.runs(20).collect();
                assert!(runs.iter().flat_map(|(range, _)| range.clone()).eq(0..20), "{blocks:?}");
                for (range, pair) in runs {
                    assert!(range.clone().all(|i| scales.of(i as u64) == pair), "{blocks:?} {range:?}");
                }
            }
        }
        assert!(Scales::ONE.runs(9).eq([(0..9, [1.0, 1.0])]));
        assert!(Scales::ONE.runs(0).next().is_none());
    }

    #[test]
    fn scales_that_are_too_few_are_refused() {
        let pairs = [[1.0; 2]; 3];
        let scales = Scales::new(&pairs, Blocks::consecutive(4));
        assert!(scales.check(12).is_ok() && scales.check(0).is_ok());
        assert_eq!(scales.check(13).unwrap_err().message, "3 scales for 4 blocks");
        assert!(scales.skip(8).check(5).is_err());
        let impossible = Blocks { columns: 4, block_rows: 0, block_columns: 1 };
        assert!(Scales::new(&pairs, impossible).check(1).is_err());
        assert!(Scales::ONE.skip(u64::MAX - 3).check(9).is_ok());
    }
}
