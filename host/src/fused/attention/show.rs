//! Scores and softmax for a trace: the same loops once more, with nothing left out.

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;

use super::{Head, Shape, causal_rows};
use crate::{
    fused::{Function, Kept, loops, zeros},
    quant::op::{elements, flex},
};

/// What a trace is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// Before the softmax, with those of the future.
    Scores,
    /// After the mask.
    Softmax,
}

/// A tensor inside of attention, `[batch, heads, block, block]`; has no backward pass.
#[derive(Debug)]
pub(super) struct Show {
    pub(super) shape: Shape,
    pub(super) mask: Option<Arc<[f32]>>,
    pub(super) what: Shown,
}

impl Function for Show {
    fn forward(&self, [qkv, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, Kept) {
        let Shape { batch, block, heads, width } = self.shape;
        let mut all = zeros(batch * self.shape.square());
        let heads_of = all.par_chunks_mut(block * block).enumerate();
        heads_of.for_each(|(number, to)| {
            let (sequence, index) = (number / heads, number % heads);
            let qkv = &elements(&qkv)[sequence * 3 * block * width..(sequence + 1) * 3 * block * width];
            let square = self.shape.square();
            let mask = self.mask.as_deref().map(|mask| &mask[sequence * square..(sequence + 1) * square]);
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.blocks() {
                let to = &mut to[first * block..end * block];
                head.products((first, end), block, to);
                match self.what {
                    Shown::Scores => loops::scale(to, self.shape.scale()),
                    Shown::Softmax => causal_rows(to, first, block, |row, past| {
                        loops::softmax(past, self.shape.scale());
                        head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    }),
                }
            }
        });
        (flex(all, [batch, heads, block, block].into()), Vec::new())
    }

    fn backward(&self, _: Kept, _: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [None, None, None]
    }
}
