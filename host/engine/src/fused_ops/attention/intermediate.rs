//! Scores and softmax for a trace: a second computation of attention over all positions.

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;

use super::head::{AttentionShape, Head, causal_rows};
use crate::{
    fused_ops::{
        function::{CpuFunction, SavedTensors},
        loops,
    },
    tensor::cpu::{elements, from_elements, zeros},
};

/// An intermediate tensor of attention that is not part of the result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Intermediate {
    /// The scaled scores before the softmax, those of future positions included.
    Scores,
    /// The softmax after the dropout mask.
    Softmax,
}

/// Computes an intermediate tensor of attention, `[batch, heads, block, block]`. It has no backward pass.
#[derive(Debug)]
pub(super) struct IntermediateTensor {
    pub(super) shape: AttentionShape,
    pub(super) mask: Option<Arc<[f32]>>,
    pub(super) which: Intermediate,
}

impl CpuFunction for IntermediateTensor {
    fn forward(&self, [qkv, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, SavedTensors) {
        let AttentionShape { batch, block, heads, width } = self.shape;
        let mut all = zeros(batch * self.shape.score_elements());
        let heads_of = all.par_chunks_mut(block * block).enumerate();
        heads_of.for_each(|(number, to)| {
            let (sequence, index) = (number / heads, number % heads);
            let qkv = &elements(&qkv)[sequence * 3 * block * width..(sequence + 1) * 3 * block * width];
            let square = self.shape.score_elements();
            let mask = self.mask.as_deref().map(|mask| &mask[sequence * square..(sequence + 1) * square]);
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.query_blocks() {
                let to = &mut to[first * block..end * block];
                head.scores((first, end), block, to);
                match self.which {
                    Intermediate::Scores => loops::scale(to, self.shape.scale()),
                    Intermediate::Softmax => causal_rows(to, first, block, |row, past| {
                        loops::softmax(past, self.shape.scale());
                        head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    }),
                }
            }
        });
        (from_elements(all, [batch, heads, block, block].into()), Vec::new())
    }

    fn backward(&self, _: SavedTensors, _: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [None, None, None]
    }
}
