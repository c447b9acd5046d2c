//! Tiles of queries, keys and values in the shared memory of a GPU's cube.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use crate::cube_parts::is_nan;

/// Numbers of a query that are saved: the largest score, the inverse of the sum of exponentials, the entropy.
pub(super) const STATS: usize = 3;

/// `x`, or the nearest bf16 value; ties go to even.
#[cube]
pub(super) fn rounded(x: f32, #[comptime] to_bf16: bool) -> f32 {
    let mut value = x;
    if comptime!(to_bf16) {
        let bits = u32::reinterpret(x);
        let nearest = (bits + 0x7fffu32 + ((bits >> 16u32) & 1u32)) & 0xffff_0000u32;
        value = select(is_nan(x), x, f32::reinterpret(nearest));
    }
    value
}

/// Loads rows `first ..` of one head, `width` columns wide, from a matrix of `rows` rows that are `stride` apart; zeros
/// behind its end. A row has one column more in shared memory, so that neighbouring rows begin in different banks.
#[cube]
pub(super) fn load(
    to: &mut Shared<[f32]>,
    from: &[f32],
    start: usize,
    stride: usize,
    first: u32,
    rows: u32,
    #[comptime] width: usize,
    #[comptime] tile: u32,
    #[comptime] to_bf16: bool,
) {
    let mut at = UNIT_POS as usize;
    while at < comptime!(width * tile as usize) {
        let (row, column) = (at / width, at % width);
        let mut value = 0.0f32;
        if first + (row as u32) < rows {
            value = rounded(from[start + (first as usize + row) * stride + column], to_bf16);
        }
        to[row * comptime!(width + 1) + column] = value;
        at += comptime!((tile * tile) as usize);
    }
}

/// The product of two rows in shared memory.
#[cube]
pub(super) fn dot(
    a: &Shared<[f32]>,
    row: u32,
    b: &Shared<[f32]>,
    other: u32,
    #[comptime] width: usize,
) -> f32 {
    let (first, second) = (row as usize * comptime!(width + 1), other as usize * comptime!(width + 1));
    let mut sum = 0.0f32;
    for column in 0..width {
        sum += a[first + column] * b[second + column];
    }
    sum
}

/// Adds up a number of each unit of a row of the tile, in order; all units of the row get the sum.
#[cube]
pub(super) fn row_sum(own: f32, place: &mut Shared<[f32]>, #[comptime] tile: u32) -> f32 {
    sync_cube();
    place[UNIT_POS as usize] = own;
    sync_cube();
    let first = UNIT_POS / tile * tile;
    let mut sum = 0.0f32;
    for other in 0..tile {
        sum += place[(first + other) as usize];
    }
    sum
}
