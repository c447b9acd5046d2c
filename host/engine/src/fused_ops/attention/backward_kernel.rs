//! The kernels of attention's backward pass: the probabilities are computed again from the scores.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use cubecl::prelude::*;

use super::tile::{STATS, dot, load, rounded, row_sum};

/// The gradient of the queries, and for each query the mean over its probabilities of their gradients, `means`
/// `[batch heads block]`.
#[cube(launch)]
pub(super) fn gradient_of_queries(
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
    #[comptime] width: usize,
    #[comptime] tile: u32,
    #[comptime] has_mask: bool,
    #[comptime] to_bf16: bool,
) {
    let mut queries = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut grads = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut key_rows = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut value_rows = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut weights = Shared::<[f32]>::new_slice(comptime!((tile * tile) as usize));
    let mut sums = Array::<f32>::new(comptime!(width.div_ceil(tile as usize)));
    let (i, j) = (UNIT_POS / tile, UNIT_POS % tile);
    let tiles = block.div_ceil(tile);
    let all = heads as usize * width;
    let work = elements / (block * comptime!(width as u32)) * tiles;
    let mut number = CUBE_POS as u32;
    while number < work {
        let (head, first) = (number / tiles, number % tiles * tile);
        let start = (head / heads * block) as usize * 3 * all + (head % heads) as usize * width;
        let of_grad = (head / heads * block) as usize * all + (head % heads) as usize * width;
        let query = first + i;
        load(&mut queries, qkv, start, 3 * all, first, block, width, tile, to_bf16);
        load(&mut grads, grad, of_grad, all, first, block, width, tile, to_bf16);
        let at = (head * block + min(query, block - 1u32)) as usize * comptime!(STATS);
        let (top, inverse) = (stats[at], stats[at + 1]);
        for part in 0..comptime!(width.div_ceil(tile as usize)) {
            sums[part] = 0.0f32;
        }
        let mut mean = 0.0f32;
        // The mean first: each gradient of a score needs it.
        for pass in 0..2u32 {
            let mut keys = 0u32;
            while keys <= first {
                sync_cube();
                load(&mut key_rows, qkv, start + all, 3 * all, keys, block, width, tile, to_bf16);
                load(&mut value_rows, qkv, start + 2 * all, 3 * all, keys, block, width, tile, to_bf16);
                sync_cube();
                let mut probability = 0.0f32;
                let mut gradient = 0.0f32;
                if keys + j <= query && query < block {
                    let score = dot(&queries, i, &key_rows, j, width) * scale;
                    probability = f32::exp(score - top) * inverse;
                    gradient = dot(&grads, i, &value_rows, j, width);
                    if comptime!(has_mask) {
                        gradient *=
                            mask[(head * block + query) as usize * block as usize + (keys + j) as usize];
                    }
                }
                if pass == 0u32 {
                    mean += probability * gradient;
                } else {
                    weights[UNIT_POS as usize] = rounded(probability * (gradient - mean) * scale, to_bf16);
                    sync_cube();
                    for part in 0..comptime!(width.div_ceil(tile as usize)) {
                        let column = j as usize + part * comptime!(tile as usize);
                        if column < width {
                            let mut value = sums[part];
                            for key in 0..tile {
                                value += weights[(i * tile + key) as usize]
                                    * key_rows[key as usize * comptime!(width + 1) + column];
                            }
                            sums[part] = value;
                        }
                    }
                }
                keys += tile;
            }
            if pass == 0u32 {
                mean = row_sum(mean, &mut weights, tile);
            }
        }
        if query < block {
            for part in 0..comptime!(width.div_ceil(tile as usize)) {
                let column = j as usize + part * comptime!(tile as usize);
                if column < width {
                    to[start + query as usize * 3 * all + column] = sums[part];
                }
            }
            if j == 0u32 {
                means[(head * block + query) as usize] = mean;
            }
        }
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}

#[cube(launch)]
pub(super) fn gradient_of_keys_and_values(
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
    #[comptime] width: usize,
    #[comptime] tile: u32,
    #[comptime] has_mask: bool,
    #[comptime] to_bf16: bool,
) {
    let mut queries = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut grads = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut key_rows = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut value_rows = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
    let mut weights = Shared::<[f32]>::new_slice(comptime!((tile * tile) as usize));
    let mut score_grads = Shared::<[f32]>::new_slice(comptime!((tile * tile) as usize));
    let mut key_sums = Array::<f32>::new(comptime!(width.div_ceil(tile as usize)));
    let mut value_sums = Array::<f32>::new(comptime!(width.div_ceil(tile as usize)));
    let (i, j) = (UNIT_POS / tile, UNIT_POS % tile);
    let tiles = block.div_ceil(tile);
    let all = heads as usize * width;
    let work = elements / (block * comptime!(width as u32)) * tiles;
    let mut number = CUBE_POS as u32;
    while number < work {
        let (head, keys) = (number / tiles, number % tiles * tile);
        let start = (head / heads * block) as usize * 3 * all + (head % heads) as usize * width;
        let of_grad = (head / heads * block) as usize * all + (head % heads) as usize * width;
        load(&mut key_rows, qkv, start + all, 3 * all, keys, block, width, tile, to_bf16);
        load(&mut value_rows, qkv, start + 2 * all, 3 * all, keys, block, width, tile, to_bf16);
        for part in 0..comptime!(width.div_ceil(tile as usize)) {
            key_sums[part] = 0.0f32;
            value_sums[part] = 0.0f32;
        }
        let mut first = keys;
        while first < block {
            sync_cube();
            load(&mut queries, qkv, start, 3 * all, first, block, width, tile, to_bf16);
            load(&mut grads, grad, of_grad, all, first, block, width, tile, to_bf16);
            sync_cube();
            let query = first + i;
            let mut probability = 0.0f32;
            let mut score_grad = 0.0f32;
            if keys + j <= query && query < block {
                let row = (head * block + query) as usize;
                let score = dot(&queries, i, &key_rows, j, width) * scale;
                probability =
                    f32::exp(score - stats[row * comptime!(STATS)]) * stats[row * comptime!(STATS) + 1];
                let mut gradient = dot(&grads, i, &value_rows, j, width);
                let mut factor = 1.0f32;
                if comptime!(has_mask) {
                    factor = mask[row * block as usize + (keys + j) as usize];
                    gradient *= factor;
                }
                score_grad = rounded(probability * (gradient - means[row]) * scale, to_bf16);
                probability = rounded(probability * factor, to_bf16);
            }
            weights[UNIT_POS as usize] = probability;
            score_grads[UNIT_POS as usize] = score_grad;
            sync_cube();
            // From here on, i is a key.
            for part in 0..comptime!(width.div_ceil(tile as usize)) {
                let column = j as usize + part * comptime!(tile as usize);
                if column < width {
                    let mut of_key = key_sums[part];
                    let mut of_value = value_sums[part];
                    for query in 0..tile {
                        let at = query as usize * comptime!(width + 1) + column;
                        of_key += score_grads[(query * tile + i) as usize] * queries[at];
                        of_value += weights[(query * tile + i) as usize] * grads[at];
                    }
                    key_sums[part] = of_key;
                    value_sums[part] = of_value;
                }
            }
            first += tile;
        }
        if keys + i < block {
            let row = start + (keys + i) as usize * 3 * all;
            for part in 0..comptime!(width.div_ceil(tile as usize)) {
                let column = j as usize + part * comptime!(tile as usize);
                if column < width {
                    to[row + all + column] = key_sums[part];
                    to[row + 2 * all + column] = value_sums[part];
                }
            }
        }
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}
