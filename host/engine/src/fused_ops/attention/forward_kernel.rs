//! The kernel of attention's forward pass.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use super::{
    products::Products,
    tile::{load, row_max, row_sum, write},
    tiling::{ALIGNMENT, STATS, Tiling},
};

/// The result, and of each query the numbers that are saved, `stats` `[batch heads block STATS]`.
#[cube(launch)]
pub(super) fn forward<P: Products>(
    qkv: &[f32],
    mask: &[f32],
    y: &mut [f32],
    stats: &mut [f32],
    elements: u32,
    block: u32,
    heads: u32,
    scale: f32,
    #[comptime] tiling: Tiling,
    #[comptime] has_mask: bool,
    #[comptime] to_bf16: bool,
) {
    let mut queries = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut others = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut weights = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.weights()), ALIGNMENT);
    let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(tiling.scores()), ALIGNMENT);
    let mut place = Shared::<[f32]>::new_slice(comptime!(tiling.units));
    let lanes = comptime!(tiling.lanes() as u32);
    let side = comptime!(tiling.side as u32);
    let (i, lane) = (UNIT_POS / lanes, UNIT_POS % lanes);
    let own = i as usize * comptime!(tiling.score_row);
    let tiles = block.div_ceil(side);
    let all = heads as usize * comptime!(tiling.width);
    let work = elements / (block * comptime!(tiling.width as u32)) * tiles;
    let mut number = CUBE_POS as u32;
    while number < work {
        let (head, first) = (number / tiles, (tiles - 1u32 - number % tiles) * side);
        let column = (head % heads) as usize * comptime!(tiling.width);
        let start = (head / heads * block) as usize * 3 * all + column;
        let query = first + i;
        load::<P>(&mut queries, qkv, start, 3 * all, first, block, tiling, to_bf16);
        let mut top = f32::new(f32::MIN);
        let mut sum = 0.0f32;
        let mut keys = 0u32;
        while keys <= first {
            load::<P>(&mut others, qkv, start + all, 3 * all, keys, block, tiling, to_bf16);
            sync_cube();
            P::scores(&queries, &others, &mut scores, tiling);
            sync_cube();
            let mut larger = top;
            for part in 0..comptime!(tiling.side as u32 / lanes) {
                let j = lane + part * lanes;
                if keys + j <= query && query < block {
                    larger = max(larger, scores[own + j as usize] * scale);
                }
            }
            sum *= f32::exp(top - larger);
            for part in 0..comptime!(tiling.side as u32 / lanes) {
                let j = lane + part * lanes;
                if keys + j <= query && query < block {
                    sum += f32::exp(scores[own + j as usize] * scale - larger);
                }
            }
            top = larger;
            keys += side;
        }
        let row_top = row_max(top, &mut place, tiling);
        let total = row_sum(sum * f32::exp(top - row_top), &mut place, tiling);
        let inverse = 1.0f32 / total;
        let mut sums = P::zeros(tiling);
        let mut inner = 0.0f32;
        keys = 0u32;
        while keys <= first {
            sync_cube();
            load::<P>(&mut others, qkv, start + all, 3 * all, keys, block, tiling, to_bf16);
            sync_cube();
            P::scores(&queries, &others, &mut scores, tiling);
            sync_cube();
            load::<P>(&mut others, qkv, start + 2 * all, 3 * all, keys, block, tiling, to_bf16);
            for part in 0..comptime!(tiling.side as u32 / lanes) {
                let j = lane + part * lanes;
                let mut probability = 0.0f32;
                if keys + j <= query && query < block {
                    let below = scores[own + j as usize] * scale - row_top;
                    let exponential = f32::exp(below);
                    inner += below * exponential;
                    probability = exponential * inverse;
                    if comptime!(has_mask) {
                        probability *=
                            mask[(head * block + query) as usize * block as usize + (keys + j) as usize];
                    }
                }
                weights[i as usize * comptime!(tiling.weight_row) + j as usize] =
                    P::operand(probability, to_bf16);
            }
            sync_cube();
            P::add(&mut sums, &weights, &others, false, tiling);
            keys += side;
        }
        let inner = row_sum(inner, &mut place, tiling);
        P::store(&sums, &mut scores, tiling);
        sync_cube();
        let start = (head / heads * block) as usize * all + column;
        write(&scores, y, start, all, first, block, tiling);
        if query < block && lane == 0u32 {
            let at = (head * block + query) as usize * comptime!(STATS);
            stats[at] = row_top;
            stats[at + 1] = inverse;
            stats[at + 2] = f32::ln(total) - inner * inverse;
        }
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}
