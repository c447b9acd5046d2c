//! The products of tiles in the shared memory of a GPU's cube: by its units, in f32, or by tensor cores, in bf16.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::{cmma, prelude::*};
use half::bf16;

use super::tiling::Tiling;
use crate::cube_parts::is_nan;

/// How a cube multiplies tiles. All its units call each function together, between two barriers.
#[cube]
pub(super) trait Products: Send + Sync + 'static {
    /// An element of a factor.
    type Operand: Float;
    /// Sums of products that a cube has in its registers: `[side, columns]`.
    type Sums: CubeType;

    /// An f32 as an element of a factor.
    fn operand(x: f32, #[comptime] to_bf16: bool) -> Self::Operand;

    /// Sums that are zero.
    fn zeros(#[comptime] tiling: Tiling) -> Self::Sums;

    /// `to = a b^T` of tiles of rows.
    fn scores(
        a: &Shared<[Self::Operand]>,
        b: &Shared<[Self::Operand]>,
        to: &mut Shared<[f32]>,
        #[comptime] tiling: Tiling,
    );

    /// Adds `a b`, or `a^T b`, of a tile of weights and a tile of rows.
    fn add(
        sums: &mut Self::Sums,
        a: &Shared<[Self::Operand]>,
        b: &Shared<[Self::Operand]>,
        #[comptime] transposed: bool,
        #[comptime] tiling: Tiling,
    );

    /// Writes the sums, rows of them `sum_row` apart.
    fn store(sums: &Self::Sums, to: &mut Shared<[f32]>, #[comptime] tiling: Tiling);
}

/// Units multiply f32. A unit has every [`side`]th row and column of a product, from its own on.
pub(super) struct Units;

/// Units along each side of a product.
const fn side(tiling: Tiling) -> usize {
    if tiling.side < 16 { tiling.side } else { 16 }
}

/// Rows, and columns of scores, of a unit.
const fn rows_of_unit(tiling: Tiling) -> usize {
    tiling.side / side(tiling)
}

/// Columns of sums of a unit; the last one may lie behind the end.
const fn columns_of_unit(tiling: Tiling) -> usize {
    tiling.columns.div_ceil(side(tiling))
}

impl Units {
    /// Tiles of so many queries and keys.
    pub(super) const fn tiling(width: usize, side: usize) -> Tiling {
        let along = if side < 16 { side } else { 16 };
        Tiling {
            width,
            side,
            units: along * along,
            columns: width,
            row: width + 1,
            score_row: side + 1,
            weight_row: side + 1,
            sum_row: width + 1,
        }
    }
}

#[cube]
impl Products for Units {
    type Operand = f32;
    type Sums = Array<f32>;

    fn operand(x: f32, #[comptime] to_bf16: bool) -> f32 {
        let mut value = x;
        if comptime!(to_bf16) {
            let bits = u32::reinterpret(x);
            let nearest = (bits + 0x7fffu32 + ((bits >> 16u32) & 1u32)) & 0xffff_0000u32;
            value = select(is_nan(x), x, f32::reinterpret(nearest));
        }
        value
    }

    fn zeros(#[comptime] tiling: Tiling) -> Array<f32> {
        let count = comptime!(rows_of_unit(tiling) * columns_of_unit(tiling));
        let mut sums = Array::<f32>::new(count);
        #[unroll]
        for at in 0..count {
            sums[at] = 0.0f32;
        }
        sums
    }

    fn scores(a: &Shared<[f32]>, b: &Shared<[f32]>, to: &mut Shared<[f32]>, #[comptime] tiling: Tiling) {
        let (along, count) = comptime!((side(tiling), rows_of_unit(tiling)));
        let (row, column) = (UNIT_POS as usize / along, UNIT_POS as usize % along);
        let mut sums = Array::<f32>::new(comptime!(count * count));
        #[unroll]
        for at in 0..comptime!(count * count) {
            sums[at] = 0.0f32;
        }
        let mut left = Array::<f32>::new(count);
        for term in 0..comptime!(tiling.columns) {
            #[unroll]
            for i in 0..count {
                left[i] = a[(row + i * along) * comptime!(tiling.row) + term];
            }
            #[unroll]
            for j in 0..count {
                let right = b[(column + j * along) * comptime!(tiling.row) + term];
                #[unroll]
                for i in 0..count {
                    sums[i * count + j] += left[i] * right;
                }
            }
        }
        #[unroll]
        for i in 0..count {
            #[unroll]
            for j in 0..count {
                to[(row + i * along) * comptime!(tiling.score_row) + column + j * along] =
                    sums[i * count + j];
            }
        }
    }

    fn add(
        sums: &mut Array<f32>,
        a: &Shared<[f32]>,
        b: &Shared<[f32]>,
        #[comptime] transposed: bool,
        #[comptime] tiling: Tiling,
    ) {
        let (along, rows, columns) = comptime!((side(tiling), rows_of_unit(tiling), columns_of_unit(tiling)));
        let (row, column) = (UNIT_POS as usize / along, UNIT_POS as usize % along);
        let mut left = Array::<f32>::new(rows);
        for term in 0..comptime!(tiling.side) {
            #[unroll]
            for i in 0..rows {
                let own = row + i * along;
                if comptime!(transposed) {
                    left[i] = a[term * comptime!(tiling.weight_row) + own];
                } else {
                    left[i] = a[own * comptime!(tiling.weight_row) + term];
                }
            }
            #[unroll]
            for j in 0..columns {
                let own = column + j * along;
                if own < comptime!(tiling.columns) {
                    let right = b[term * comptime!(tiling.row) + own];
                    #[unroll]
                    for i in 0..rows {
                        sums[i * columns + j] += left[i] * right;
                    }
                }
            }
        }
    }

    fn store(sums: &Array<f32>, to: &mut Shared<[f32]>, #[comptime] tiling: Tiling) {
        let (along, rows, columns) = comptime!((side(tiling), rows_of_unit(tiling), columns_of_unit(tiling)));
        let (row, column) = (UNIT_POS as usize / along, UNIT_POS as usize % along);
        #[unroll]
        for i in 0..rows {
            #[unroll]
            for j in 0..columns {
                let own = column + j * along;
                if own < comptime!(tiling.columns) {
                    to[(row + i * along) * comptime!(tiling.sum_row) + own] = sums[i * columns + j];
                }
            }
        }
    }
}

/// Tensor cores multiply matrices of 16 x 16 bf16 and add them in f32. Two planes share a strip of 16 rows: each has
/// every second matrix of it.
pub(super) struct TensorCores;

/// Rows and columns of a matrix that tensor cores multiply.
pub(super) const SIDE: usize = 16;
/// Units of a plane.
pub(super) const PLANE: usize = 32;
/// Planes that share a strip of rows.
const PLANES: usize = 2;

impl TensorCores {
    /// Tiles of so many queries and keys, a multiple of [`SIDE`].
    pub(super) const fn tiling(width: usize, side: usize) -> Tiling {
        let columns = width.next_multiple_of(SIDE);
        // Rows of bf16 are multiples of 16 bytes, as are those of f32.
        Tiling {
            width,
            side,
            units: side / SIDE * PLANES * PLANE,
            columns,
            row: columns + 8,
            score_row: side + 4,
            weight_row: side + 8,
            sum_row: columns + 4,
        }
    }
}

/// A factor of 16 x 16 elements, from a slice whose rows, or columns, are `stride` apart.
#[cube]
fn factor(
    from: &[bf16],
    #[comptime] ident: cmma::MatrixIdent,
    #[comptime] layout: cmma::MatrixLayout,
    #[comptime] stride: usize,
) -> cmma::Matrix<bf16> {
    cmma::Matrix::<bf16>::from_slice(ident, SIDE, SIDE, SIDE, layout, from, comptime!(stride as u32))
}

/// A sum of 16 x 16 elements that is zero.
#[cube]
fn zero() -> cmma::Matrix<f32> {
    cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        SIDE,
        SIDE,
        SIDE,
        cmma::MatrixLayout::Undefined,
        0.0f32,
    )
}

#[cube]
impl Products for TensorCores {
    type Operand = bf16;
    type Sums = Sequence<cmma::Matrix<f32>>;

    fn operand(x: f32, #[comptime] _to_bf16: bool) -> bf16 {
        bf16::cast_from(x)
    }

    fn zeros(#[comptime] tiling: Tiling) -> Sequence<cmma::Matrix<f32>> {
        let mut sums = Sequence::new();
        #[unroll]
        for _ in 0..comptime!((tiling.columns / SIDE).div_ceil(PLANES)) {
            sums.push(zero());
        }
        sums
    }

    fn scores(a: &Shared<[bf16]>, b: &Shared<[bf16]>, to: &mut Shared<[f32]>, #[comptime] tiling: Tiling) {
        let plane = UNIT_POS as usize / PLANE;
        let first = plane / PLANES * SIDE;
        #[unroll]
        for part in 0..comptime!((tiling.side / SIDE).div_ceil(PLANES)) {
            let column = (plane % PLANES + part * PLANES) * SIDE;
            if column < comptime!(tiling.side) {
                let sum = zero();
                #[unroll]
                for term in 0..comptime!(tiling.columns / SIDE) {
                    let left = first * comptime!(tiling.row) + term * SIDE;
                    let right = column * comptime!(tiling.row) + term * SIDE;
                    let left = factor(
                        &a[left..left + SIDE],
                        cmma::MatrixIdent::A,
                        cmma::MatrixLayout::RowMajor,
                        comptime!(tiling.row),
                    );
                    let right = factor(
                        &b[right..right + SIDE],
                        cmma::MatrixIdent::B,
                        cmma::MatrixLayout::ColMajor,
                        comptime!(tiling.row),
                    );
                    cmma::execute(&left, &right, &sum, &sum);
                }
                let place = first * comptime!(tiling.score_row) + column;
                cmma::store(
                    &mut to[place..place + SIDE],
                    &sum,
                    comptime!(tiling.score_row as u32),
                    cmma::MatrixLayout::RowMajor,
                );
            }
        }
    }

    fn add(
        sums: &mut Sequence<cmma::Matrix<f32>>,
        a: &Shared<[bf16]>,
        b: &Shared<[bf16]>,
        #[comptime] transposed: bool,
        #[comptime] tiling: Tiling,
    ) {
        let plane = UNIT_POS as usize / PLANE;
        let first = plane / PLANES * SIDE;
        #[unroll]
        for term in 0..comptime!(tiling.side / SIDE) {
            let mut left = first * comptime!(tiling.weight_row) + term * SIDE;
            if comptime!(transposed) {
                left = term * SIDE * comptime!(tiling.weight_row) + first;
            }
            let left = factor(
                &a[left..left + SIDE],
                cmma::MatrixIdent::A,
                comptime!(if transposed {
                    cmma::MatrixLayout::ColMajor
                } else {
                    cmma::MatrixLayout::RowMajor
                }),
                comptime!(tiling.weight_row),
            );
            #[unroll]
            for part in 0..comptime!((tiling.columns / SIDE).div_ceil(PLANES)) {
                let column = (plane % PLANES + part * PLANES) * SIDE;
                if column < comptime!(tiling.columns) {
                    let right = term * SIDE * comptime!(tiling.row) + column;
                    let right = factor(
                        &b[right..right + SIDE],
                        cmma::MatrixIdent::B,
                        cmma::MatrixLayout::RowMajor,
                        comptime!(tiling.row),
                    );
                    let sum = sums.index(part);
                    cmma::execute(&left, &right, sum, sum);
                }
            }
        }
    }

    fn store(sums: &Sequence<cmma::Matrix<f32>>, to: &mut Shared<[f32]>, #[comptime] tiling: Tiling) {
        let plane = UNIT_POS as usize / PLANE;
        let first = plane / PLANES * SIDE;
        #[unroll]
        for part in 0..comptime!((tiling.columns / SIDE).div_ceil(PLANES)) {
            let column = (plane % PLANES + part * PLANES) * SIDE;
            if column < comptime!(tiling.columns) {
                let place = first * comptime!(tiling.sum_row) + column;
                cmma::store(
                    &mut to[place..place + SIDE],
                    sums.index(part),
                    comptime!(tiling.sum_row as u32),
                    cmma::MatrixLayout::RowMajor,
                );
            }
        }
    }
}
