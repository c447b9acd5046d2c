//! Blocks of a matrix made consecutive: the input of format kernels and scale kernels.

use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Flex, TensorMetadata,
    autodiff::checkpoint::strategy::CheckpointStrategy, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{FloatDType, Shape};
use rayon::prelude::*;

use crate::tensor::{
    contiguous,
    cpu::{elements, flat, from_elements, zeros},
};

/// Least number of elements per parallel task.
const CHUNK: usize = 1 << 14;

/// The order of the elements of a matrix that consists of whole tiles, for burn's backends. No gradient passes.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Autodiff, Fusion: cfg(feature = "gpu"))]
pub trait TileOps: Backend {
    /// The elements of a matrix tile by tile, row by row in each: `[elements]`.
    #[fusion(default)]
    fn by_tiles(x: FloatTensor<Self>, tile: [usize; 2]) -> FloatTensor<Self> {
        let ([rows, columns], [a, b]) = ([x.shape()[0], x.shape()[1]], tile);
        let tiles = Self::float_reshape(x, Shape::from([rows / a, a, columns / b, b]));
        let tiles = Self::float_permute(tiles, &[0, 2, 1, 3]);
        Self::float_reshape(tiles, Shape::from([rows * columns]))
    }

    /// The matrix of this shape whose elements [`Self::by_tiles`] has put one after the other.
    #[fusion(default)]
    fn by_rows(x: FloatTensor<Self>, shape: [usize; 2], tile: [usize; 2]) -> FloatTensor<Self> {
        let ([rows, columns], [a, b]) = (shape, tile);
        let tiles = Self::float_reshape(x, Shape::from([rows / a, columns / b, a, b]));
        let tiles = Self::float_permute(tiles, &[0, 2, 1, 3]);
        Self::float_reshape(tiles, Shape::from([rows, columns]))
    }
}

#[cfg(feature = "gpu")]
impl TileOps for burn_cubecl::CubeBackend {}

impl<B: TileOps, C: CheckpointStrategy> TileOps for Autodiff<B, C> {
    fn by_tiles(x: FloatTensor<Self>, tile: [usize; 2]) -> FloatTensor<Self> {
        <Self as AutodiffBackend>::from_inner(B::by_tiles(x.into_primitive(), tile))
    }

    fn by_rows(x: FloatTensor<Self>, shape: [usize; 2], tile: [usize; 2]) -> FloatTensor<Self> {
        <Self as AutodiffBackend>::from_inner(B::by_rows(x.into_primitive(), shape, tile))
    }
}

/// Copies of whole rows of tiles, on all threads.
impl TileOps for Flex {
    fn by_tiles(x: FloatTensor<Self>, [a, b]: [usize; 2]) -> FloatTensor<Self> {
        let (columns, x) = (x.shape()[1], contiguous(x));
        let mut to = zeros(x.shape().num_elements());
        let strips =
            to.par_chunks_mut((a * columns).max(1)).zip(elements(&x).par_chunks((a * columns).max(1)));
        strips.with_min_len((CHUNK / (a * columns).max(1)).max(1)).for_each(|(to, from)| {
            for (index, row) in to.chunks_exact_mut(b).enumerate() {
                let (tile, line) = (index / a, index % a);
                row.copy_from_slice(&from[line * columns + tile * b..][..b]);
            }
        });
        flat(to)
    }

    fn by_rows(x: FloatTensor<Self>, shape: [usize; 2], [a, b]: [usize; 2]) -> FloatTensor<Self> {
        let (columns, x) = (shape[1], contiguous(x));
        let mut to = zeros(x.shape().num_elements());
        let strips =
            to.par_chunks_mut((a * columns).max(1)).zip(elements(&x).par_chunks((a * columns).max(1)));
        strips.with_min_len((CHUNK / (a * columns).max(1)).max(1)).for_each(|(to, from)| {
            for (index, row) in from.chunks_exact(b).enumerate() {
                let (tile, line) = (index / a, index % a);
                to[line * columns + tile * b..][..b].copy_from_slice(row);
            }
        });
        from_elements(to, shape.into())
    }
}

/// The tiles of a matrix. Rounding needs the elements of each tile to be consecutive; where an extent does not divide
/// the matrix, zeros fill up the last tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrangement {
    /// Rows and columns of a tile, at least 1 each. With one row, blocks lie within rows, one after the other already.
    pub tile: [usize; 2],
}

impl Arrangement {
    /// No tiles: the order does not change.
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
    pub(super) fn arranged<B: TileOps>(self, x: FloatTensor<B>) -> FloatTensor<B> {
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
        if self.tile[0] == 1 { x } else { B::by_tiles(x, self.tile) }
    }

    /// The matrix `[rows, columns]` whose elements [`Self::arranged`] has put one after the other.
    pub(super) fn restored<B: TileOps>(
        self,
        x: FloatTensor<B>,
        [rows, columns]: [usize; 2],
    ) -> FloatTensor<B> {
        let [padded_rows, padded_columns] = self.padded([rows, columns]);
        let padded = [padded_rows, padded_columns];
        let x = if self.tile[0] == 1 { x } else { B::by_rows(x, padded, self.tile) };
        if padded == [rows, columns] {
            return x;
        }
        B::float_slice(x, &[(0..rows).into(), (0..columns).into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::numbers;

    /// Rows 0 and 1 of tiles of 2 x 3: the element in row i and column j is 10 i + j.
    #[test]
    fn tiles_are_consecutive_and_return_to_their_places() {
        let matrix = |rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|at| (at / columns * 10 + at % columns) as f32).collect()
        };
        let x = from_elements(matrix(4, 6), [4, 6].into());
        let tiles = Flex::by_tiles(x, [2, 3]);
        let first = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 3.0, 4.0, 5.0, 13.0, 14.0, 15.0, 20.0, 21.0, 22.0];
        assert_eq!(elements(&tiles)[..15], first);
        let back = Flex::by_rows(tiles, [4, 6], [2, 3]);
        assert_eq!(elements(&back), matrix(4, 6));
    }

    /// A matrix that tiles do not divide, as it is and transposed.
    #[test]
    fn padding_goes_and_comes() {
        let x = from_elements(numbers(1, 35), [5, 7].into());
        for x in [x.clone(), x.transpose(0, 1)] {
            let shape = [x.shape()[0], x.shape()[1]];
            let arrangement = Arrangement { tile: [2, 4] };
            let arranged = arrangement.arranged::<Flex>(x.clone());
            assert_eq!(arranged.shape().num_elements(), 35 + arrangement.padding(shape));
            let back = arrangement.restored::<Flex>(arranged, shape);
            assert_eq!(elements(&back.to_contiguous()), elements(&x.to_contiguous()));
        }
    }
}
