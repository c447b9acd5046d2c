//! Causal self-attention of all heads, from the stacked queries, keys and values.
//!
//! A thread takes a sequence. It goes through its heads in blocks of queries, whose scores fit into the cache and
//! reach no further than the block's last position; the backward pass computes them again. What lies in the future of
//! a whole block is never computed.

mod head;
mod intermediate;

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Device, Tensor, TensorData, activation};
use rayon::prelude::*;

pub use self::head::AttentionShape;
use self::{
    head::{Head, QUERY_BLOCK, causal_rows},
    intermediate::{Intermediate, IntermediateTensor},
};
use super::{
    function::{CpuFunction, SavedTensors, apply, is_available},
    loops,
};
use altgrad_config::PrecisionChoice;

use crate::{
    matrix::{self, Matrix, MatrixMut},
    quant::{Role, ValueCasts},
    tensor::{
        bf16,
        cpu::{elements, flat, from_elements, zeros},
        untracked,
    },
    trace::TraceScope,
};

/// What the two products of attention may round. The product of probabilities and values contracts over positions.
const CAST_ROLES: [Role; 6] =
    [Role::Query, Role::Key, Role::Value, Role::Probabilities, Role::ScoresGrad, Role::AttentionGrad];

/// `softmax(q k^T / sqrt(head width)) v` of each head. Each position sees itself and earlier ones. The softmax is multiplied by
/// `mask`, if there is one. `precision` is that of the matrix products, `casts` are those of their operands. Shapes: `qkv` `[batch, block, 3 width]`, mask
/// `[batch, heads, block, block]`, result `[batch, block, width]`. Records scores and softmax.
#[must_use]
pub fn causal(
    qkv: Tensor<3>,
    mask: Option<Tensor<4>>,
    shape: AttentionShape,
    (precision, casts): (PrecisionChoice, ValueCasts<'_>),
    scope: TraceScope<'_>,
) -> Tensor<3> {
    let device = qkv.device();
    if !is_available(&device) || casts.any(&CAST_ROLES) {
        return reference(qkv, mask, shape, (precision, casts), scope);
    }
    let to_bf16 = precision == PrecisionChoice::Bf16;
    let qkv = if to_bf16 { bf16::round_to_bf16(qkv) } else { qkv };
    let mask: Option<Arc<[f32]>> = mask.and_then(|mask| mask.into_data().try_into_vec().ok()).map(Into::into);
    let intermediate = |which| {
        let function = IntermediateTensor { shape, mask: mask.clone(), which };
        apply::<3, 4>(untracked(qkv.clone()), [None, None], function)
    };
    scope.record_with("scores", || intermediate(Intermediate::Scores));
    let scores = scope.gradient_probe("gradient of scores", &device);
    scope.record_with("softmax", || intermediate(Intermediate::Softmax));
    let softmax = scope.gradient_probe("gradient of softmax", &device);
    apply(qkv, [scores, softmax], Attention { shape, mask, to_bf16 })
}

/// The same as a chain of tensor operations.
fn reference(
    qkv: Tensor<3>,
    mask: Option<Tensor<4>>,
    shape: AttentionShape,
    (precision, casts): (PrecisionChoice, ValueCasts<'_>),
    scope: TraceScope<'_>,
) -> Tensor<3> {
    let AttentionShape { batch, block, heads, width } = shape;
    // [batch, block, width] -> [batch, heads, block, head width]
    let part = |index: usize| {
        let part = qkv.clone().narrow(2, index * width, width);
        part.reshape([batch, block, heads, shape.head_width()]).swap_dims(1, 2)
    };
    let (q, k, v) = (part(0), part(1), part(2));
    let (q, k) = (casts.cast(Role::Query, q), casts.cast(Role::Key, k));
    let scores = bf16::matmul(q, k.swap_dims(2, 3), precision);
    let scores = casts.cast_gradient(Role::ScoresGrad, scores);
    let scores = scores.mul_scalar(1.0 / (shape.head_width() as f64).sqrt());
    let scores = scope.observe("scores", scores);
    let future = future(block, &qkv.device()).expand([batch, heads, block, block]);
    let softmax = activation::softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3);
    let softmax = mask.into_iter().fold(softmax, |softmax, mask| softmax * mask);
    let softmax = scope.observe("softmax", softmax);
    let softmax = casts.cast(Role::Probabilities, softmax);
    let v = if casts.any(&[Role::Value]) {
        casts.cast(Role::Value, v.swap_dims(2, 3)).swap_dims(2, 3)
    } else {
        v
    };
    let y = casts.cast_gradient(Role::AttentionGrad, bf16::matmul(softmax, v, precision));
    y.swap_dims(1, 2).reshape([batch, block, width])
}

/// True where position j lies in position i's future: `[1, 1, block, block]`.
fn future(block: usize, device: &Device) -> Tensor<4, Bool> {
    let mask: Vec<bool> = (0..block * block).map(|index| index % block > index / block).collect();
    Tensor::from_data(TensorData::new(mask, [1, 1, block, block]), device)
}

/// Attention from the stacked q, k and v. The gradients of the two other inputs are those of scores and softmax, flat.
#[derive(Debug)]
struct Attention {
    shape: AttentionShape,
    mask: Option<Arc<[f32]>>,
    /// Whether the softmax and the gradients of both products are rounded to bf16 before they are multiplied. q, k and v are already.
    to_bf16: bool,
}

impl Attention {
    /// The result of one sequence, and the largest score and the inverse sum of exponentials of every row.
    fn sequence_forward(&self, qkv: &[f32], mask: Option<&[f32]>, y: &mut [f32], stats: &mut [[f32; 2]]) {
        let AttentionShape { block, heads, width, .. } = self.shape;
        let mut softmax = zeros(QUERY_BLOCK.min(block) * block);
        for index in 0..heads {
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.query_blocks() {
                let softmax = &mut softmax[..(end - first) * end];
                head.scores((first, end), end, softmax);
                causal_rows(softmax, first, end, |row, past| {
                    stats[index * block + row] = loops::softmax(past, self.shape.scale());
                    if let Some(mask) = head.mask(row, past.len()) {
                        loops::multiply(past, mask);
                    }
                });
                self.round(softmax);
                let softmax = Matrix::rows(softmax, end - first, end, end);
                let y = &mut y[first * width + index * self.shape.head_width()..];
                let y = MatrixMut::rows(y, end - first, self.shape.head_width(), width);
                matrix::multiply(y, softmax, head.part(2, 0, end), false);
            }
        }
    }

    /// The gradients of one sequence's q, k and v. Those of scores and softmax, `[heads, block, block]`, go to `traced` where
    /// it has a vector.
    fn sequence_backward(
        &self,
        (qkv, mask): (&[f32], Option<&[f32]>),
        stats: &[[f32; 2]],
        grad: &[f32],
        to: &mut [f32],
        traced: &mut [Option<Vec<f32>>; 2],
    ) {
        let AttentionShape { block, heads, width, .. } = self.shape;
        let (head_width, scale) = (self.shape.head_width(), self.shape.scale());
        let len = QUERY_BLOCK.min(block) * block;
        let (mut softmax, mut multiplied, mut score_grad) = (zeros(len), zeros(len), zeros(len));
        let mut rounded = if self.to_bf16 { grad.to_vec() } else { Vec::new() };
        self.round(&mut rounded);
        let grad = if self.to_bf16 { &rounded } else { grad };
        for index in 0..heads {
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.query_blocks() {
                let (rows, size) = (end - first, (end - first) * end);
                let (softmax, multiplied, score_grad) =
                    (&mut softmax[..size], &mut multiplied[..size], &mut score_grad[..size]);
                head.scores((first, end), end, softmax);
                causal_rows(softmax, first, end, |row, past| {
                    loops::recompute_softmax(past, scale, stats[index * block + row]);
                });
                let grad = &grad[first * width + index * head_width..];
                let grad = Matrix::rows(grad, rows, head_width, width);
                matrix::multiply(
                    MatrixMut::rows(score_grad, rows, end, end),
                    grad,
                    head.part(2, 0, end).transposed(),
                    false,
                );
                let copy = |traced: &mut Option<Vec<f32>>, x: &[f32]| {
                    let Some(traced) = traced else { return };
                    for (row, x) in x.chunks_exact(end).enumerate() {
                        let start = (index * block + first + row) * block;
                        traced[start..start + end].copy_from_slice(x);
                    }
                };
                let [traced_scores, traced_softmax] = &mut *traced;
                copy(traced_softmax, score_grad);
                if mask.is_some() || self.to_bf16 {
                    multiplied.copy_from_slice(softmax);
                    causal_rows(multiplied, first, end, |row, past| {
                        head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    });
                    self.round(multiplied);
                }
                causal_rows(score_grad, first, end, |row, past| {
                    head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    loops::softmax_backward(&softmax[(row - first) * end..], past);
                });
                copy(traced_scores, score_grad);
                loops::scale(score_grad, scale);
                self.round(score_grad);
                let softmax = if mask.is_some() || self.to_bf16 { &*multiplied } else { &*softmax };
                let [softmax, score_grad] = [softmax, &*score_grad].map(|x| Matrix::rows(x, rows, end, end));
                let mut part =
                    |which: usize, first: usize, rows: usize, a: Matrix<'_>, b: Matrix<'_>, add: bool| {
                        let start = first * 3 * width + which * width + index * head_width;
                        let to = MatrixMut::rows(&mut to[start..], rows, head_width, 3 * width);
                        matrix::multiply(to, a, b, add);
                    };
                part(0, first, rows, score_grad, head.part(1, 0, end), false);
                part(1, 0, end, score_grad.transposed(), head.part(0, first, end), true);
                part(2, 0, end, softmax.transposed(), grad, true);
            }
        }
    }

    /// Rounds what a product is about to use, if it is multiplied in bf16.
    fn round(&self, x: &mut [f32]) {
        if self.to_bf16 {
            bf16::round_slice(x);
        }
    }

    /// The mask of each sequence.
    fn mask(&self, sequence: usize) -> Option<&[f32]> {
        let square = self.shape.score_elements();
        self.mask.as_deref().map(|mask| &mask[sequence * square..(sequence + 1) * square])
    }
}

impl CpuFunction for Attention {
    fn forward(&self, [qkv, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let AttentionShape { batch, block, heads, width } = self.shape;
        let mut y = zeros(batch * block * width);
        let mut stats = vec![[0f32; 2]; batch * heads * block];
        let parts = y.par_chunks_mut(block * width).zip(stats.par_chunks_mut(heads * block));
        let parts = parts.zip(elements(&qkv).par_chunks(3 * block * width)).enumerate();
        parts.for_each(|(index, ((y, stats), qkv))| self.sequence_forward(qkv, self.mask(index), y, stats));
        let y = from_elements(y, [batch, block, width].into());
        (y, if tracked { vec![qkv, flat(stats.into_flattened())] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let AttentionShape { batch, block, heads, width } = self.shape;
        let (qkv, stats) = (elements(&saved[0]), elements(&saved[1]).as_chunks().0);
        let mut to = zeros(qkv.len());
        let parts = to.par_chunks_mut(3 * block * width).zip(qkv.par_chunks(3 * block * width));
        let parts = parts.zip(stats.par_chunks(heads * block)).zip(elements(&grad).par_chunks(block * width));
        let traced: Vec<[Option<Vec<f32>>; 2]> = parts
            .enumerate()
            .map(|(index, (((to, qkv), stats), grad))| {
                let mut traced =
                    [wanted[1], wanted[2]].map(|wanted| wanted.then(|| zeros(self.shape.score_elements())));
                self.sequence_backward((qkv, self.mask(index)), stats, grad, to, &mut traced);
                traced
            })
            .collect();
        let mut all = [wanted[1], wanted[2]]
            .map(|wanted| wanted.then(|| Vec::with_capacity(batch * self.shape.score_elements())));
        for sequence in traced {
            for (all, part) in all.iter_mut().zip(sequence) {
                all.iter_mut().zip(part).for_each(|(all, part)| all.extend(part));
            }
        }
        let [scores, softmax] = all.map(|all| all.map(flat));
        [Some(from_elements(to, [batch, block, 3 * width].into())), scores, softmax]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu_ops::testing::{compare, run},
        quant::QuantContext,
        tensor::testing::numbers,
    };

    type Casts<'a> = (PrecisionChoice, ValueCasts<'a>);
    type Op = fn(Tensor<3>, Option<Tensor<4>>, AttentionShape, Casts<'_>, TraceScope<'_>) -> Tensor<3>;

    /// `op` on one stacked tensor, with or without a mask.
    fn of(
        op: Op,
        shape: AttentionShape,
        mask: Option<&[f32]>,
        precision: PrecisionChoice,
    ) -> impl Fn([Tensor<1>; 1]) -> Tensor<1> {
        move |[qkv]| {
            let dtype = qkv.dtype();
            let mask = mask.map(|mask| {
                let mask =
                    TensorData::new(mask.to_vec(), [shape.batch, shape.heads, shape.block, shape.block]);
                Tensor::<4>::from_data(mask, &qkv.device()).cast(dtype)
            });
            let qkv = qkv.reshape([shape.batch, shape.block, 3 * shape.width]);
            let quant = QuantContext::off();
            let y = op(qkv, mask, shape, (precision, quant.values(0, 0)), TraceScope::OFF);
            y.reshape([shape.batch * shape.block * shape.width])
        }
    }

    /// Shapes in one block of queries and in several, the last one short; stacked tensors and masks for them.
    fn cases() -> impl Iterator<Item = (AttentionShape, Vec<f32>, Vec<f32>)> {
        [(1, 1, 1, 1), (2, 8, 2, 3), (1, 64, 1, 32), (3, 150, 2, 16)].into_iter().map(
            |(batch, block, heads, head)| {
                let shape = AttentionShape { batch, block, heads, width: heads * head };
                let qkv = numbers(5, batch * block * 3 * shape.width).iter().map(|x| 3.0 * x).collect();
                let mask = numbers(6, batch * shape.score_elements());
                let mask = mask.iter().map(|x| if *x < -0.5 { 0.0 } else { 4.0 / 3.0 }).collect();
                (shape, qkv, mask)
            },
        )
    }

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for (shape, qkv, mask) in cases() {
            for mask in [None, Some(&mask[..])] {
                let of = |op| of(op, shape, mask, PrecisionChoice::Fp32);
                compare(std::array::from_ref(&qkv), 2e-6, of(causal), of(reference));
            }
        }
    }

    /// Sums differ in their last bits, and now and then one of them then rounds to the next bf16 value.
    #[test]
    fn results_and_gradients_in_bf16_are_those_of_the_reference_but_for_ties() {
        for (shape, qkv, mask) in cases() {
            for mask in [None, Some(&mask[..])] {
                let of =
                    |op| run(std::array::from_ref(&qkv), false, of(op, shape, mask, PrecisionChoice::Bf16));
                for (found, expected) in of(causal).iter().zip(&of(reference)) {
                    let size = expected.iter().fold(1e-30, |size: f64, x| size.max(x.abs()));
                    let off = || found.iter().zip(expected).map(|(a, b)| (a - b).abs() / size);
                    let (most, mean) = (off().fold(0.0, f64::max), off().sum::<f64>() / found.len() as f64);
                    assert!(most < 2e-3 && mean < 2e-5, "{shape:?}: {most:e} at most, {mean:e} on average");
                    let unrounded = run(
                        std::array::from_ref(&qkv),
                        false,
                        self::of(causal, shape, mask, PrecisionChoice::Fp32),
                    );
                    assert!(shape.block == 1 || unrounded[0] != *found);
                }
            }
        }
    }
}
