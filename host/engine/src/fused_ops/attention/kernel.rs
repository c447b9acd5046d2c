//! Attention on GPUs: one kernel forward, two backward. A cube computes a tile of queries, or of keys, of one head; a
//! unit has one score of a pair of tiles.
//!
//! The normalized probabilities are what the second product multiplies, rounded in bf16, so that a first pass over the
//! keys finds the largest score and the sum of exponentials of each query. All sums have a fixed order.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{
    backward_kernel::{gradient_of_keys_and_values, gradient_of_queries},
    head::AttentionShape,
    tile::{STATS, dot, load, rounded, row_sum},
};
use crate::{
    cube_parts::elements,
    fused_ops::device::{DeviceFunction, empty},
};

/// The widest heads whose tiles fit into the shared memory that GPUs have, 32 KiB.
pub(super) const MAX_HEAD_WIDTH: usize = 128;
/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;
/// Attention from the stacked q, k and v, `[batch, block, 3 width]`, and, if it `has_mask`, a factor of each
/// probability, `[batch, heads, block, block]`.
#[derive(Debug, Clone, Copy)]
pub struct DeviceAttention {
    /// The extents.
    pub shape: AttentionShape,
    /// True if the second input is a mask.
    pub has_mask: bool,
    /// True if the operands of all products are rounded to bf16.
    pub to_bf16: bool,
}

impl DeviceAttention {
    /// Queries, and keys, of a tile.
    fn tile(&self) -> usize {
        if self.shape.head_width() <= 64 { 16 } else { 8 }
    }

    /// The cubes of a launch over all tiles.
    fn cubes(&self) -> CubeCount {
        let AttentionShape { batch, block, heads, .. } = self.shape;
        CubeCount::new_1d((batch * heads * block.div_ceil(self.tile())).min(MAX_CUBES) as u32)
    }

    fn units(&self) -> CubeDim {
        CubeDim::new_1d((self.tile() * self.tile()) as u32)
    }
}

impl DeviceFunction for DeviceAttention {
    fn inputs(&self) -> usize {
        1 + usize::from(self.has_mask)
    }

    fn shapes(&self, _: [&Shape; 3]) -> [Shape; 2] {
        let AttentionShape { batch, block, heads, width } = self.shape;
        [Shape::from([batch, block, width]), Shape::from([batch * heads * block * STATS])]
    }

    fn forward(&self, [qkv, mask, _]: [CubeTensor; 3], [y, stats]: [CubeTensor; 2], _: bool) {
        let (client, elements) = (qkv.client.clone(), elements(&y));
        forward::launch(
            &client,
            self.cubes(),
            self.units(),
            qkv.into_buffer_arg(),
            mask.into_buffer_arg(),
            y.into_buffer_arg(),
            stats.into_buffer_arg(),
            elements,
            self.shape.block as u32,
            self.shape.heads as u32,
            self.shape.scale(),
            self.shape.head_width(),
            self.tile() as u32,
            self.has_mask,
            self.to_bf16,
        );
    }

    /// The mask has no gradient: dropout draws it.
    fn backward(
        &self,
        [qkv, mask, _]: [CubeTensor; 3],
        stats: CubeTensor,
        grad: CubeTensor,
        [to, ..]: [CubeTensor; 3],
    ) {
        let AttentionShape { batch, block, heads, .. } = self.shape;
        let (client, elements) = (qkv.client.clone(), elements(&grad));
        let means = empty(&qkv, Shape::from([batch * heads * block]));
        gradient_of_queries::launch(
            &client,
            self.cubes(),
            self.units(),
            qkv.clone().into_buffer_arg(),
            mask.clone().into_buffer_arg(),
            stats.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            means.clone().into_buffer_arg(),
            elements,
            block as u32,
            heads as u32,
            self.shape.scale(),
            self.shape.head_width(),
            self.tile() as u32,
            self.has_mask,
            self.to_bf16,
        );
        gradient_of_keys_and_values::launch(
            &client,
            self.cubes(),
            self.units(),
            qkv.into_buffer_arg(),
            mask.into_buffer_arg(),
            stats.into_buffer_arg(),
            grad.into_buffer_arg(),
            means.into_buffer_arg(),
            to.into_buffer_arg(),
            elements,
            block as u32,
            heads as u32,
            self.shape.scale(),
            self.shape.head_width(),
            self.tile() as u32,
            self.has_mask,
            self.to_bf16,
        );
    }
}

#[cube(launch)]
fn forward(
    qkv: &[f32],
    mask: &[f32],
    y: &mut [f32],
    stats: &mut [f32],
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
    let mut others = Shared::<[f32]>::new_slice(comptime!(tile as usize * (width + 1)));
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
        let query = first + i;
        load(&mut queries, qkv, start, 3 * all, first, block, width, tile, to_bf16);
        let mut top = f32::new(f32::MIN);
        let mut sum = 0.0f32;
        let mut keys = 0u32;
        while keys <= first {
            load(&mut others, qkv, start + all, 3 * all, keys, block, width, tile, to_bf16);
            sync_cube();
            if keys + j <= query && query < block {
                let score = dot(&queries, i, &others, j, width) * scale;
                let larger = max(top, score);
                sum = sum * f32::exp(top - larger) + f32::exp(score - larger);
                top = larger;
            }
            sync_cube();
            keys += tile;
        }
        weights[UNIT_POS as usize] = top;
        sync_cube();
        let mut row_top = f32::new(f32::MIN);
        for other in 0..tile {
            row_top = max(row_top, weights[(i * tile + other) as usize]);
        }
        let total = row_sum(sum * f32::exp(top - row_top), &mut weights, tile);
        let inverse = 1.0f32 / total;
        for part in 0..comptime!(width.div_ceil(tile as usize)) {
            sums[part] = 0.0f32;
        }
        let mut inner = 0.0f32;
        keys = 0u32;
        while keys <= first {
            sync_cube();
            load(&mut others, qkv, start + all, 3 * all, keys, block, width, tile, to_bf16);
            sync_cube();
            let mut probability = 0.0f32;
            if keys + j <= query && query < block {
                let below = dot(&queries, i, &others, j, width) * scale - row_top;
                let exponential = f32::exp(below);
                inner += below * exponential;
                probability = exponential * inverse;
                if comptime!(has_mask) {
                    probability *=
                        mask[(head * block + query) as usize * block as usize + (keys + j) as usize];
                }
                probability = rounded(probability, to_bf16);
            }
            sync_cube();
            weights[UNIT_POS as usize] = probability;
            load(&mut others, qkv, start + 2 * all, 3 * all, keys, block, width, tile, to_bf16);
            sync_cube();
            for part in 0..comptime!(width.div_ceil(tile as usize)) {
                let column = j as usize + part * comptime!(tile as usize);
                if column < width {
                    let mut value = sums[part];
                    for key in 0..tile {
                        value += weights[(i * tile + key) as usize]
                            * others[key as usize * comptime!(width + 1) + column];
                    }
                    sums[part] = value;
                }
            }
            keys += tile;
        }
        let inner = row_sum(inner, &mut weights, tile);
        if query < block {
            let row = ((head / heads) * block + query) as usize * all + (head % heads) as usize * width;
            for part in 0..comptime!(width.div_ceil(tile as usize)) {
                let column = j as usize + part * comptime!(tile as usize);
                if column < width {
                    y[row + column] = sums[part];
                }
            }
            if j == 0u32 {
                let at = (head * block + query) as usize * comptime!(STATS);
                stats[at] = row_top;
                stats[at + 1] = inverse;
                stats[at + 2] = f32::ln(total) - inner * inverse;
            }
        }
        sync_cube();
        number += CUBE_COUNT as u32;
    }
}
