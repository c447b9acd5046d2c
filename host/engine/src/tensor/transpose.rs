//! Copies of transposed matrices.

use burn::backend::{TensorMetadata, flex::FlexTensor};
use multiversion::multiversion;
use rayon::prelude::*;

use super::cpu::{from_elements, zeros};

/// Rows and columns of a tile that is transposed at once.
const TILE: usize = 16;

/// The same elements, row-major. A transposed matrix is copied on all threads.
pub(crate) fn contiguous(x: FlexTensor) -> FlexTensor {
    let layout = x.layout();
    let shape = x.shape();
    let transposed = shape.num_dims() == 2 && layout.strides()[0] == 1 && layout.strides()[1] > 1;
    if x.is_contiguous() || !transposed {
        return x.to_contiguous();
    }
    let (rows, columns, stride) = (shape[0], shape[1], layout.strides()[1].unsigned_abs());
    let mut to = zeros(rows * columns);
    let from = &x.storage::<f32>()[layout.start_offset()..];
    to.par_chunks_mut((TILE * columns).max(1)).enumerate().for_each(|(strip, to)| {
        transpose_strip(&from[strip * TILE..], stride, columns, to);
    });
    from_elements(to, shape)
}

/// `to[i][j] = from[j][i]`: some rows of `columns` elements, whose columns lie `stride` elements apart in `from`.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn transpose_strip(from: &[f32], stride: usize, columns: usize, to: &mut [f32]) {
    let rows = to.len() / columns;
    for first in (0..columns).step_by(TILE) {
        let width = TILE.min(columns - first);
        if rows == TILE && width == TILE {
            let mut tile = [[0f32; TILE]; TILE];
            for (row, tile) in tile.iter_mut().enumerate() {
                tile.copy_from_slice(&from[(first + row) * stride..][..TILE]);
            }
            for column in 0..TILE {
                let to = &mut to[column * columns + first..][..TILE];
                for row in 0..TILE {
                    to[row] = tile[row][column];
                }
            }
        } else {
            for row in 0..rows {
                for column in first..first + width {
                    to[row * columns + column] = from[column * stride + row];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{cpu::elements, testing::numbers};

    /// Whole tiles and parts of some, of whole matrices and of cuts.
    #[test]
    fn copies_have_the_elements_of_their_views() {
        for [rows, columns] in [[1, 1], [3, 40], [16, 16], [33, 50], [64, 7]] {
            let x = from_elements(numbers(1, rows * columns), [rows, columns].into());
            let turned = x.transpose(0, 1);
            assert_eq!(elements(&contiguous(turned.clone())), elements(&turned.to_contiguous()));
            let cut = turned.narrow(0, 0, columns / 2 + 1).narrow(1, rows / 2, rows - rows / 2);
            assert_eq!(elements(&contiguous(cut.clone())), elements(&cut.to_contiguous()));
        }
    }
}
