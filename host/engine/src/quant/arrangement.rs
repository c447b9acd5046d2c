//! Blocks of a matrix made consecutive: the input of format kernels and scale kernels.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{FloatDType, Shape};

/// The tiles of a matrix. Rounding needs the elements of each one after the other; where an extent does not divide the matrix, zeros
/// fill up the last tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrangement {
    /// Rows and columns of a tile, at least 1 each. With one row, blocks lie within rows, one after the other already.
    pub tile: [usize; 2],
}

impl Arrangement {
    /// No tiles: nothing moves.
    pub const NONE: Self = Self { tile: [1, 1] };

    /// Blocks of consecutive elements of a row.
    #[must_use]
    pub fn along(columns: usize) -> Self {
        Self { tile: [1, columns.max(1)] }
    }

    /// Number of zeros that fill up the tiles of a matrix.
    #[must_use]
    pub fn padding(self, [rows, columns]: [usize; 2]) -> usize {
        let [padded_rows, padded_columns] = self.padded([rows, columns]);
        padded_rows * padded_columns - rows * columns
    }

    /// True if elements keep their places.
    #[must_use]
    pub fn is_identity(self, shape: [usize; 2]) -> bool {
        self.tile[0] == 1 && self.padding(shape) == 0
    }

    fn padded(self, [rows, columns]: [usize; 2]) -> [usize; 2] {
        [rows.next_multiple_of(self.tile[0]), columns.next_multiple_of(self.tile[1])]
    }

    /// The elements of `x`, tile by tile. Shape: `[rows, columns]` of whole tiles with one row each, else `[elements]`.
    pub(super) fn arranged<B: Backend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        let [rows, columns] = [x.shape()[0], x.shape()[1]];
        let [padded_rows, padded_columns] = self.padded([rows, columns]);
        let zeros =
            |shape: [usize; 2], device: &_| B::float_zeros(Shape::from(shape), device, FloatDType::F32);
        let x = if padded_columns == columns {
            x
        } else {
            let zeros = zeros([rows, padded_columns - columns], &x.device());
            B::float_cat(vec![x, zeros], 1)
        };
        let x = if padded_rows == rows {
            x
        } else {
            let zeros = zeros([padded_rows - rows, padded_columns], &x.device());
            B::float_cat(vec![x, zeros], 0)
        };
        if self.tile[0] == 1 {
            return x;
        }
        let [a, b] = self.tile;
        let tiles = B::float_reshape(x, Shape::from([padded_rows / a, a, padded_columns / b, b]));
        let tiles = B::float_permute(tiles, &[0, 2, 1, 3]);
        B::float_reshape(tiles, Shape::from([padded_rows * padded_columns]))
    }

    /// The matrix `[rows, columns]` whose elements [`Self::arranged`] has put one after the other.
    pub(super) fn restored<B: Backend>(
        self,
        x: FloatTensor<B>,
        [rows, columns]: [usize; 2],
    ) -> FloatTensor<B> {
        let [padded_rows, padded_columns] = self.padded([rows, columns]);
        let x = if self.tile[0] == 1 {
            x
        } else {
            let [a, b] = self.tile;
            let tiles = B::float_reshape(x, Shape::from([padded_rows / a, padded_columns / b, a, b]));
            let tiles = B::float_permute(tiles, &[0, 2, 1, 3]);
            B::float_reshape(tiles, Shape::from([padded_rows, padded_columns]))
        };
        if [padded_rows, padded_columns] == [rows, columns] {
            return x;
        }
        B::float_slice(x, &[(0..rows).into(), (0..columns).into()])
    }
}
