//! Tiles of queries, keys and values on their way to the shared memory of a GPU's cube and back, and sums over a row.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use super::{products::Products, tiling::Tiling};

/// Loads rows `first ..` of one head from a matrix of `rows` rows that are `stride` apart; zeros behind its end.
#[cube]
pub(super) fn load<P: Products>(
    to: &mut Shared<[P::Operand]>,
    from: &[f32],
    start: usize,
    stride: usize,
    first: u32,
    rows: u32,
    #[comptime] tiling: Tiling,
    #[comptime] to_bf16: bool,
) {
    let mut at = UNIT_POS as usize;
    while at < comptime!(tiling.side * tiling.columns) {
        let (row, column) = (at / comptime!(tiling.columns), at % comptime!(tiling.columns));
        let mut value = 0.0f32;
        if first + (row as u32) < rows && column < comptime!(tiling.width) {
            value = from[start + (first as usize + row) * stride + column];
        }
        to[row * comptime!(tiling.row) + column] = P::operand(value, to_bf16);
        at += comptime!(tiling.units);
    }
}

/// Writes the sums of rows `first ..` of one head, which are in shared memory, to such a matrix.
#[cube]
pub(super) fn write(
    from: &Shared<[f32]>,
    to: &mut [f32],
    start: usize,
    stride: usize,
    first: u32,
    rows: u32,
    #[comptime] tiling: Tiling,
) {
    let mut at = UNIT_POS as usize;
    while at < comptime!(tiling.side * tiling.width) {
        let (row, column) = (at / comptime!(tiling.width), at % comptime!(tiling.width));
        if first + (row as u32) < rows {
            to[start + (first as usize + row) * stride + column] =
                from[row * comptime!(tiling.sum_row) + column];
        }
        at += comptime!(tiling.units);
    }
}

/// Adds up a number of each unit of a row of scores, in order; all units of the row get the sum.
#[cube]
pub(super) fn row_sum(own: f32, place: &mut Shared<[f32]>, #[comptime] tiling: Tiling) -> f32 {
    sync_cube();
    place[UNIT_POS as usize] = own;
    sync_cube();
    let first = UNIT_POS as usize / comptime!(tiling.lanes()) * comptime!(tiling.lanes());
    let mut sum = 0.0f32;
    for other in 0..comptime!(tiling.lanes()) {
        sum += place[first + other];
    }
    sum
}

/// The largest number of the units of a row of scores.
#[cube]
pub(super) fn row_max(own: f32, place: &mut Shared<[f32]>, #[comptime] tiling: Tiling) -> f32 {
    sync_cube();
    place[UNIT_POS as usize] = own;
    sync_cube();
    let first = UNIT_POS as usize / comptime!(tiling.lanes()) * comptime!(tiling.lanes());
    let mut largest = f32::new(f32::MIN);
    for other in 0..comptime!(tiling.lanes()) {
        largest = max(largest, place[first + other]);
    }
    largest
}
