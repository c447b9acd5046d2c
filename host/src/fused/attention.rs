//! Causal self-attention of all heads, from the stacked queries, keys and values.
//!
//! A thread takes a sequence. It goes through its heads in blocks of queries, whose scores fit into the cache and
//! reach no further than the block's last position; the backward pass computes them again. What lies in the future of
//! a whole block is never computed.

mod show;

use std::sync::Arc;

use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Device, Tensor, TensorData, activation};
use rayon::prelude::*;

use self::show::{Show, Shown};
use super::{Function, Kept, apply, flat, loops, on, zeros};
use crate::{
    quant::{
        Precision, Quant,
        op::{elements, flex},
    },
    raw::{self, Matrix, MatrixMut},
    trace::At,
};

/// Queries that are computed at once.
const BLOCK: usize = 64;

/// How many of everything there are.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Positions of each.
    pub block: usize,
    /// Heads.
    pub heads: usize,
    /// Width of all heads together.
    pub width: usize,
}

impl Shape {
    /// Width of a head.
    fn head(&self) -> usize {
        self.width / self.heads
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.head() as f64).sqrt()) as f32
    }

    /// The blocks of queries: first, and the end, which is also that of their keys.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> {
        let block = self.block;
        (0..block).step_by(BLOCK).map(move |first| (first, (first + BLOCK).min(block)))
    }

    /// Elements of a sequence's softmax over all heads.
    fn square(&self) -> usize {
        self.heads * self.block * self.block
    }
}

/// `softmax(q k^T / sqrt(head)) v` of each head, every position seeing itself and what is before it. `mask`, if there is
/// one, multiplies the softmax. Products as precise as `quant` says. Shapes: `qkv` `[batch, block, 3 width]`, mask
/// `[batch, heads, block, block]`, result `[batch, block, width]`. Shows `at` scores and softmax.
#[must_use]
pub fn causal(qkv: Tensor<3>, mask: Option<Tensor<4>>, shape: Shape, quant: &Quant, at: At<'_>) -> Tensor<3> {
    let device = qkv.device();
    if !on(&device) || quant.precision() != Precision::Fp32 {
        return plain(qkv, mask, shape, quant, at);
    }
    let mask: Option<Arc<[f32]>> = mask.and_then(|mask| mask.into_data().try_into_vec().ok()).map(Into::into);
    let show = |what| {
        let qkv = if device.is_autodiff() { qkv.clone().inner() } else { qkv.clone() };
        apply::<3, 4>(qkv, [None, None], Show { shape, mask: mask.clone(), what })
    };
    at.value_of("scores", || show(Shown::Scores));
    let scores = at.probe("gradient of scores", &device);
    at.value_of("softmax", || show(Shown::Softmax));
    let softmax = at.probe("gradient of softmax", &device);
    apply(qkv, [scores, softmax], Attention { shape, mask })
}

/// The same, of tensor operations.
fn plain(qkv: Tensor<3>, mask: Option<Tensor<4>>, shape: Shape, quant: &Quant, at: At<'_>) -> Tensor<3> {
    let Shape { batch, block, heads, width } = shape;
    // [batch, block, width] -> [batch, heads, block, head]
    let part = |index: usize| {
        let part = qkv.clone().narrow(2, index * width, width);
        part.reshape([batch, block, heads, shape.head()]).swap_dims(1, 2)
    };
    let (q, k, v) = (part(0), part(1), part(2));
    let scores = quant.matmul(q, k.swap_dims(2, 3)).mul_scalar(1.0 / (shape.head() as f64).sqrt());
    let scores = at.point("scores", scores);
    let future = future(block, &qkv.device()).expand([batch, heads, block, block]);
    let softmax = activation::softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3);
    let softmax = at.point("softmax", mask.into_iter().fold(softmax, |softmax, mask| softmax * mask));
    quant.matmul(softmax, v).swap_dims(1, 2).reshape([batch, block, width])
}

/// True where position j lies in position i's future: `[1, 1, block, block]`.
fn future(block: usize, device: &Device) -> Tensor<4, Bool> {
    let mask: Vec<bool> = (0..block * block).map(|index| index % block > index / block).collect();
    Tensor::from_data(TensorData::new(mask, [1, 1, block, block]), device)
}

/// Of the stacked q, k and v; the gradients of the others are those of scores and softmax, flat.
#[derive(Debug)]
struct Attention {
    shape: Shape,
    mask: Option<Arc<[f32]>>,
}

/// One head of one sequence.
#[derive(Clone, Copy)]
struct Head<'a> {
    shape: Shape,
    index: usize,
    /// Queries, keys and values of all heads, `[block, 3 width]`.
    qkv: &'a [f32],
    /// Of the sequence, `[heads, block, block]`.
    mask: Option<&'a [f32]>,
}

impl<'a> Head<'a> {
    /// Rows `first..end` of queries (0), keys (1) or values (2).
    fn part(&self, which: usize, first: usize, end: usize) -> Matrix<'a> {
        let Shape { width, .. } = self.shape;
        let start = first * 3 * width + which * width + self.index * self.shape.head();
        Matrix::rows(&self.qkv[start..], end - first, self.shape.head(), 3 * width)
    }

    /// `q k^T` of queries `first..end` and keys `0..keys`, `[end - first, keys]`.
    fn products(&self, (first, end): (usize, usize), keys: usize, to: &mut [f32]) {
        let to = MatrixMut::rows(to, end - first, keys, keys);
        raw::multiply(to, self.part(0, first, end), self.part(1, 0, keys).transposed(), false);
    }

    /// The mask of query `row`, up to `end`.
    fn mask(&self, row: usize, end: usize) -> Option<&'a [f32]> {
        let start = (self.index * self.shape.block + row) * self.shape.block;
        self.mask.map(|mask| &mask[start..start + end])
    }
}

/// Makes the future of each row zero; row i of `x`, `keys` wide, is query `first + i`. Calls `each` with a row's query and its past.
fn causal_rows(x: &mut [f32], first: usize, keys: usize, mut each: impl FnMut(usize, &mut [f32])) {
    for (row, x) in x.chunks_exact_mut(keys).enumerate() {
        let (past, future) = x.split_at_mut((first + row + 1).min(keys));
        each(first + row, past);
        future.fill(0.0);
    }
}

impl Attention {
    /// One sequence, and the largest score and the inverse sum of every row.
    fn sequence(&self, qkv: &[f32], mask: Option<&[f32]>, y: &mut [f32], stats: &mut [[f32; 2]]) {
        let Shape { block, heads, width, .. } = self.shape;
        let mut softmax = zeros(BLOCK.min(block) * block);
        for index in 0..heads {
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.blocks() {
                let softmax = &mut softmax[..(end - first) * end];
                head.products((first, end), end, softmax);
                causal_rows(softmax, first, end, |row, past| {
                    stats[index * block + row] = loops::softmax(past, self.shape.scale());
                    if let Some(mask) = head.mask(row, past.len()) {
                        loops::multiply(past, mask);
                    }
                });
                let softmax = Matrix::rows(softmax, end - first, end, end);
                let y = &mut y[first * width + index * self.shape.head()..];
                let y = MatrixMut::rows(y, end - first, self.shape.head(), width);
                raw::multiply(y, softmax, head.part(2, 0, end), false);
            }
        }
    }

    /// The gradient of one sequence's q, k and v; shows those of scores and softmax, `[heads, block, block]`, if asked.
    fn sequence_backward(
        &self,
        (qkv, mask): (&[f32], Option<&[f32]>),
        stats: &[[f32; 2]],
        grad: &[f32],
        to: &mut [f32],
        shown: &mut [Option<Vec<f32>>; 2],
    ) {
        let Shape { block, heads, width, .. } = self.shape;
        let (head_width, scale) = (self.shape.head(), self.shape.scale());
        let len = BLOCK.min(block) * block;
        let (mut softmax, mut masked, mut slope) = (zeros(len), zeros(len), zeros(len));
        for index in 0..heads {
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.blocks() {
                let (rows, size) = (end - first, (end - first) * end);
                let (softmax, masked, slope) =
                    (&mut softmax[..size], &mut masked[..size], &mut slope[..size]);
                head.products((first, end), end, softmax);
                causal_rows(softmax, first, end, |row, past| {
                    loops::softmax_again(past, scale, stats[index * block + row]);
                });
                let grad = &grad[first * width + index * head_width..];
                let grad = Matrix::rows(grad, rows, head_width, width);
                raw::multiply(
                    MatrixMut::rows(slope, rows, end, end),
                    grad,
                    head.part(2, 0, end).transposed(),
                    false,
                );
                let show = |shown: &mut Option<Vec<f32>>, x: &[f32]| {
                    let Some(shown) = shown else { return };
                    for (row, x) in x.chunks_exact(end).enumerate() {
                        let start = (index * block + first + row) * block;
                        shown[start..start + end].copy_from_slice(x);
                    }
                };
                let [shown_scores, shown_softmax] = &mut *shown;
                show(shown_softmax, slope);
                if mask.is_some() {
                    masked.copy_from_slice(softmax);
                    causal_rows(masked, first, end, |row, past| {
                        head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    });
                }
                causal_rows(slope, first, end, |row, past| {
                    head.mask(row, past.len()).into_iter().for_each(|mask| loops::multiply(past, mask));
                    loops::softmax_backward(&softmax[(row - first) * end..], past);
                });
                show(shown_scores, slope);
                loops::scale(slope, scale);
                let softmax = if mask.is_some() { &*masked } else { &*softmax };
                let [softmax, slope] = [softmax, &*slope].map(|x| Matrix::rows(x, rows, end, end));
                let mut part =
                    |which: usize, first: usize, rows: usize, a: Matrix<'_>, b: Matrix<'_>, add: bool| {
                        let start = first * 3 * width + which * width + index * head_width;
                        let to = MatrixMut::rows(&mut to[start..], rows, head_width, 3 * width);
                        raw::multiply(to, a, b, add);
                    };
                part(0, first, rows, slope, head.part(1, 0, end), false);
                part(1, 0, end, slope.transposed(), head.part(0, first, end), true);
                part(2, 0, end, softmax.transposed(), grad, true);
            }
        }
    }

    /// The mask of each sequence.
    fn mask(&self, sequence: usize) -> Option<&[f32]> {
        let square = self.shape.square();
        self.mask.as_deref().map(|mask| &mask[sequence * square..(sequence + 1) * square])
    }
}

impl Function for Attention {
    fn forward(&self, [qkv, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept) {
        let Shape { batch, block, heads, width } = self.shape;
        let mut y = zeros(batch * block * width);
        let mut stats = vec![[0f32; 2]; batch * heads * block];
        let parts = y.par_chunks_mut(block * width).zip(stats.par_chunks_mut(heads * block));
        let parts = parts.zip(elements(&qkv).par_chunks(3 * block * width)).enumerate();
        parts.for_each(|(index, ((y, stats), qkv))| self.sequence(qkv, self.mask(index), y, stats));
        let y = flex(y, [batch, block, width].into());
        (y, if tracked { vec![qkv, flat(stats.into_flattened())] } else { Vec::new() })
    }

    fn backward(&self, kept: Kept, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Shape { batch, block, heads, width } = self.shape;
        let (qkv, stats) = (elements(&kept[0]), elements(&kept[1]).as_chunks().0);
        let mut to = zeros(qkv.len());
        let parts = to.par_chunks_mut(3 * block * width).zip(qkv.par_chunks(3 * block * width));
        let parts = parts.zip(stats.par_chunks(heads * block)).zip(elements(&grad).par_chunks(block * width));
        let shown: Vec<[Option<Vec<f32>>; 2]> = parts
            .enumerate()
            .map(|(index, (((to, qkv), stats), grad))| {
                let mut shown =
                    [wanted[1], wanted[2]].map(|wanted| wanted.then(|| zeros(self.shape.square())));
                self.sequence_backward((qkv, self.mask(index)), stats, grad, to, &mut shown);
                shown
            })
            .collect();
        let mut all = [wanted[1], wanted[2]]
            .map(|wanted| wanted.then(|| Vec::with_capacity(batch * self.shape.square())));
        for sequence in shown {
            for (all, part) in all.iter_mut().zip(sequence) {
                all.iter_mut().zip(part).for_each(|(all, part)| all.extend(part));
            }
        }
        let [scores, softmax] = all.map(|all| all.map(flat));
        [Some(flex(to, [batch, block, 3 * width].into())), scores, softmax]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::testing::{compare, numbers};

    /// With and without a mask, in one block of queries and in several, the last one short.
    #[test]
    fn as_the_chain() {
        for (batch, block, heads, head) in [(1, 1, 1, 1), (2, 8, 2, 3), (1, 64, 1, 32), (3, 150, 2, 16)] {
            let shape = Shape { batch, block, heads, width: heads * head };
            let qkv: Vec<f32> = numbers(5, batch * block * 3 * shape.width).iter().map(|x| 3.0 * x).collect();
            let dropped = numbers(6, batch * shape.square());
            let dropped: Vec<f32> = dropped.iter().map(|x| if *x < -0.5 { 0.0 } else { 4.0 / 3.0 }).collect();
            for masked in [false, true] {
                let of = |op: fn(Tensor<3>, Option<Tensor<4>>, Shape, &Quant, At<'_>) -> Tensor<3>| {
                    let dropped = &dropped;
                    move |[qkv]: [Tensor<1>; 1]| {
                        let mask = TensorData::new(dropped.clone(), [batch, heads, block, block]);
                        let dtype = qkv.dtype();
                        let mask = Tensor::<4>::from_data(mask, &qkv.device()).cast(dtype);
                        let qkv = qkv.reshape([batch, block, 3 * shape.width]);
                        op(qkv, masked.then_some(mask), shape, &Quant::off(), At::NOWHERE)
                            .reshape([batch * block * shape.width])
                    }
                };
                compare(std::array::from_ref(&qkv), 2e-6, of(causal), of(plain));
            }
        }
    }
}
