//! The measurements of attention's softmax on GPUs, from what the forward pass saves of each query: one launch of one
//! cube.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{head::AttentionShape, tiling::STATS};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, QUIET, UNITS, cube_max, cube_sum, ordered, unordered},
    fused_ops::device::DeviceFunction,
};

/// From the numbers of each query, `[batch * heads * block * STATS]`, the entropy of each head and the largest score,
/// `[heads + 1]`.
#[derive(Debug, Clone, Copy)]
pub struct Summary(pub AttentionShape);

impl DeviceFunction for Summary {
    fn inputs(&self) -> usize {
        1
    }

    fn shapes(&self, _: [&Shape; 3]) -> [Shape; 2] {
        [Shape::from([self.0.heads + 1]), Shape::from([1])]
    }

    fn forward(&self, [stats, ..]: [CubeTensor; 3], [to, _]: [CubeTensor; 2], _: bool) {
        let AttentionShape { batch, block, heads, .. } = self.0;
        summarize::launch(
            &stats.client.clone(),
            CubeCount::new_1d(1),
            CubeDim::new_1d(UNITS),
            stats.into_buffer_arg(),
            to.into_buffer_arg(),
            (batch * block) as u32,
            block as u32,
            heads as u32,
            1.0 / (batch * (block - 1)) as f32,
        );
    }

    /// Measurements have no gradient: the numbers of queries are outside of the graph.
    fn backward(&self, _: [CubeTensor; 3], _: CubeTensor, _: CubeTensor, _: [CubeTensor; 3]) {}
}

/// One cube, whose units take the queries in turn: `elements` of them.
#[cube(launch)]
fn summarize(stats: &[f32], to: &mut [f32], elements: u32, block: u32, heads: u32, share: f32) {
    let mut largest = 0u32;
    let mut magnitude = 0u32;
    for head in 0..heads {
        let mut sum = 0.0f32;
        let mut query = UNIT_POS;
        while query < elements {
            let position = query % block;
            let at = ((query / block * heads + head) * block + position) as usize * comptime!(STATS);
            let (score, inverse, entropy) = (stats[at], stats[at + 1], stats[at + 2]);
            largest = max(largest, ordered(score));
            magnitude = max(magnitude, u32::reinterpret(inverse * entropy) & MAGNITUDE);
            // The first query has one key, and an entropy of zero.
            if position > 0u32 {
                sum += entropy / f32::ln(f32::cast_from(position + 1u32)) * share;
            }
            query += UNITS;
        }
        let sum = cube_sum(sum);
        if UNIT_POS == 0u32 {
            to[head as usize] = sum;
        }
    }
    let largest = cube_max(largest);
    // The largest score may leave NaN out.
    let magnitude = cube_max(magnitude);
    if UNIT_POS == 0u32 {
        let bits = u32::reinterpret(unordered(largest));
        to[heads as usize] =
            f32::reinterpret(select(magnitude >= INFINITY, comptime!(INFINITY | QUIET), bits));
    }
}
