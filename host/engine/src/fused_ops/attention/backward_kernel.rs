//! The kernels of attention's backward pass: the probabilities are computed again from the scores.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use super::{
    products::Products,
    tile::{load, row_sum, write},
    tiling::{ALIGNMENT, STATS, Tiling},
};

/// The gradient of the queries, and for each query the mean over its probabilities of their gradients, `means`
/// `[batch heads block]`.
#[cube(launch)]
pub(super) fn gradient_of_queries<P: Products>(
    qkv: &[f32],
    mask: &[f32],
    stats: &[f32],
    grad: &[f32],
    to: &mut [f32],
    means: &mut [f32],
    elements: u32,
    block: u32,
    heads: u32,
    scale: f32,
    #[comptime] tiling: Tiling,
    #[comptime] has_mask: bool,
    #[comptime] to_bf16: bool,
) {
    let mut queries = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut grads = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut key_rows = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut value_rows = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut weights = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.weights()), ALIGNMENT);
    let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(tiling.scores()), ALIGNMENT);
    let mut gradients = Shared::<[f32]>::new_aligned_slice(comptime!(tiling.scores()), ALIGNMENT);
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
        let of_grad = (head / heads * block) as usize * all + column;
        let query = first + i;
        load::<P>(&mut queries, qkv, start, 3 * all, first, block, tiling, to_bf16);
        load::<P>(&mut grads, grad, of_grad, all, first, block, tiling, to_bf16);
        let at = (head * block + min(query, block - 1u32)) as usize * comptime!(STATS);
        let (top, inverse) = (stats[at], stats[at + 1]);
        let mut sums = P::zeros(tiling);
        let mut mean = 0.0f32;
        // The mean first: each gradient of a score needs it.
        for pass in 0..2u32 {
            let mut keys = 0u32;
            while keys <= first {
                sync_cube();
                load::<P>(&mut key_rows, qkv, start + all, 3 * all, keys, block, tiling, to_bf16);
                load::<P>(&mut value_rows, qkv, start + 2 * all, 3 * all, keys, block, tiling, to_bf16);
                sync_cube();
                P::scores(&queries, &key_rows, &mut scores, tiling);
                P::scores(&grads, &value_rows, &mut gradients, tiling);
                sync_cube();
                for part in 0..comptime!(tiling.side as u32 / lanes) {
                    let j = lane + part * lanes;
                    let mut probability = 0.0f32;
                    let mut gradient = 0.0f32;
                    if keys + j <= query && query < block {
                        probability = f32::exp(scores[own + j as usize] * scale - top) * inverse;
                        gradient = gradients[own + j as usize];
                        if comptime!(has_mask) {
                            gradient *=
                                mask[(head * block + query) as usize * block as usize + (keys + j) as usize];
                        }
                    }
                    if pass == 0u32 {
                        mean += probability * gradient;
                    } else {
                        weights[i as usize * comptime!(tiling.weight_row) + j as usize] =
                            P::operand(probability * (gradient - mean) * scale, to_bf16);
                    }
                }
                if pass == 1u32 {
                    sync_cube();
                    P::add(&mut sums, &weights, &key_rows, false, tiling);
                }
                keys += side;
            }
            if pass == 0u32 {
                mean = row_sum(mean, &mut place, tiling);
            }
        }
        P::store(&sums, &mut scores, tiling);
        sync_cube();
        write(&scores, to, start, 3 * all, first, block, tiling);
        if query < block && lane == 0u32 {
            means[(head * block + query) as usize] = mean;
        }
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}

/// The gradients of the keys and of the values.
#[cube(launch)]
pub(super) fn gradient_of_keys_and_values<P: Products>(
    qkv: &[f32],
    mask: &[f32],
    stats: &[f32],
    grad: &[f32],
    means: &[f32],
    to: &mut [f32],
    elements: u32,
    block: u32,
    heads: u32,
    scale: f32,
    #[comptime] tiling: Tiling,
    #[comptime] has_mask: bool,
    #[comptime] to_bf16: bool,
) {
    let mut queries = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut grads = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut key_rows = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut value_rows = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.rows()), ALIGNMENT);
    let mut weights = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.weights()), ALIGNMENT);
    let mut score_grads = Shared::<[P::Operand]>::new_aligned_slice(comptime!(tiling.weights()), ALIGNMENT);
    let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(tiling.scores()), ALIGNMENT);
    let mut gradients = Shared::<[f32]>::new_aligned_slice(comptime!(tiling.scores()), ALIGNMENT);
    let lanes = comptime!(tiling.lanes() as u32);
    let side = comptime!(tiling.side as u32);
    let (i, lane) = (UNIT_POS / lanes, UNIT_POS % lanes);
    let own = i as usize * comptime!(tiling.score_row);
    let tiles = block.div_ceil(side);
    let all = heads as usize * comptime!(tiling.width);
    let work = elements / (block * comptime!(tiling.width as u32)) * tiles;
    let mut number = CUBE_POS as u32;
    while number < work {
        let (head, keys) = (number / tiles, number % tiles * side);
        let column = (head % heads) as usize * comptime!(tiling.width);
        let start = (head / heads * block) as usize * 3 * all + column;
        let of_grad = (head / heads * block) as usize * all + column;
        load::<P>(&mut key_rows, qkv, start + all, 3 * all, keys, block, tiling, to_bf16);
        load::<P>(&mut value_rows, qkv, start + 2 * all, 3 * all, keys, block, tiling, to_bf16);
        let mut key_sums = P::zeros(tiling);
        let mut value_sums = P::zeros(tiling);
        let mut first = keys;
        while first < block {
            sync_cube();
            load::<P>(&mut queries, qkv, start, 3 * all, first, block, tiling, to_bf16);
            load::<P>(&mut grads, grad, of_grad, all, first, block, tiling, to_bf16);
            sync_cube();
            P::scores(&queries, &key_rows, &mut scores, tiling);
            P::scores(&grads, &value_rows, &mut gradients, tiling);
            sync_cube();
            let query = first + i;
            for part in 0..comptime!(tiling.side as u32 / lanes) {
                let j = lane + part * lanes;
                let mut probability = 0.0f32;
                let mut score_grad = 0.0f32;
                if keys + j <= query && query < block {
                    let row = (head * block + query) as usize;
                    let below = scores[own + j as usize] * scale - stats[row * comptime!(STATS)];
                    probability = f32::exp(below) * stats[row * comptime!(STATS) + 1];
                    let mut gradient = gradients[own + j as usize];
                    let mut factor = 1.0f32;
                    if comptime!(has_mask) {
                        factor = mask[row * block as usize + (keys + j) as usize];
                        gradient *= factor;
                    }
                    score_grad = probability * (gradient - means[row]) * scale;
                    probability *= factor;
                }
                let at = i as usize * comptime!(tiling.weight_row) + j as usize;
                weights[at] = P::operand(probability, to_bf16);
                score_grads[at] = P::operand(score_grad, to_bf16);
            }
            sync_cube();
            P::add(&mut key_sums, &score_grads, &queries, true, tiling);
            P::add(&mut value_sums, &weights, &grads, true, tiling);
            first += side;
        }
        P::store(&key_sums, &mut scores, tiling);
        P::store(&value_sums, &mut gradients, tiling);
        sync_cube();
        write(&scores, to, start + all, 3 * all, keys, block, tiling);
        write(&gradients, to, start + 2 * all, 3 * all, keys, block, tiling);
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}
