//! Causal self-attention of all heads, from the stacked queries, keys and values.
//!
//! A thread computes a sequence. It processes its heads in blocks of queries, whose scores fit into the cache and
//! extend to the block's last position only; the backward pass computes them again. Blocks that lie wholly in the
//! future are never computed.

#[cfg(feature = "gpu")]
mod backward_kernel;
#[cfg(feature = "gpu")]
mod forward_kernel;
mod head;
mod intermediate;
#[cfg(feature = "gpu")]
mod kernel;
#[cfg(feature = "gpu")]
mod kernel_choice;
mod monitor;
#[cfg(feature = "gpu")]
mod monitor_kernel;
#[cfg(feature = "gpu")]
mod products;
#[cfg(feature = "gpu")]
mod tile;
#[cfg(feature = "gpu")]
mod tiling;

use std::sync::{Arc, OnceLock};

use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Device, Tensor, TensorData, activation};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
pub(crate) use self::kernel_choice::choices;
pub use self::{
    head::AttentionShape,
    monitor::{AttentionMonitor, AttentionStats, RequestedAttention},
};
use self::{
    head::{Head, QUERY_BLOCK, causal_rows},
    intermediate::{Intermediate, IntermediateTensor},
};
#[cfg(feature = "gpu")]
pub use self::{kernel::DeviceAttention, monitor_kernel::Summary};
#[cfg(feature = "gpu")]
use super::device;
use super::{
    function::{CpuFunction, SavedTensors, apply, is_available},
    loops,
};
use altgrad_config::PrecisionChoice;

use crate::{
    matrix::{self, Matrix, MatrixMut},
    quant::{Role, ValueCasts},
    tensor::{
        self, bf16,
        cpu::{elements, flat, from_elements, zeros},
        untracked,
    },
    trace::TraceScope,
};

/// The roles that the two products of attention may round. The product of probabilities and values contracts over
/// positions.
pub const CAST_ROLES: [Role; 6] =
    [Role::Query, Role::Key, Role::Value, Role::Probabilities, Role::ScoresGrad, Role::AttentionGrad];

/// `softmax(q k^T / sqrt(head width)) v` of each head. Each position attends to itself and earlier ones. The softmax is
/// multiplied by `mask`, if there is one. A `monitor` receives the measurements of its layer. `precision` is that of
/// the matrix products, `casts` are those of their operands. Shapes: `qkv` `[batch, block, 3 width]`, mask
/// `[batch, heads, block, block]`, result `[batch, block, width]`. Records scores and softmax.
#[must_use]
pub fn causal(
    qkv: Tensor<3>,
    mask: Option<Tensor<4>>,
    shape: AttentionShape,
    (precision, casts): (PrecisionChoice, ValueCasts<'_>),
    scope: TraceScope<'_>,
    monitor: Option<(&AttentionMonitor, usize)>,
) -> Tensor<3> {
    let device = qkv.device();
    // A query that attends to itself only has no entropy.
    let monitor = monitor.filter(|_| shape.block > 1);
    if !is_available(&device) || casts.any(&CAST_ROLES) {
        #[cfg(feature = "gpu")]
        if !is_available(&device)
            && !casts.any(&CAST_ROLES)
            && !scope.is_on()
            && shape.head_width() <= kernel::MAX_HEAD_WIDTH
        {
            return on_device(qkv, mask, shape, precision, monitor);
        }
        return reference(qkv, mask, shape, (precision, casts), scope, monitor);
    }
    let to_bf16 = precision == PrecisionChoice::Bf16;
    let qkv = if to_bf16 { bf16::round_to_bf16(qkv) } else { qkv };
    let mask = mask.map(mask_elements);
    let intermediate = |which| {
        let function = IntermediateTensor { shape, mask: mask.clone(), which };
        apply::<3, 4>(untracked(qkv.clone()), [None, None], function)
    };
    scope.record_with("scores", || intermediate(Intermediate::Scores));
    let scores = scope.gradient_probe("gradient of scores", &device);
    scope.record_with("softmax", || intermediate(Intermediate::Softmax));
    let softmax = scope.gradient_probe("gradient of softmax", &device);
    let measured = monitor.map(|_| Arc::new(OnceLock::new()));
    let y = apply(qkv, [scores, softmax], Attention { shape, mask, to_bf16, measured: measured.clone() });
    // The CPU executes operations when they are called.
    if let (Some((monitor, layer)), Some(measured)) = (monitor, measured.as_ref().and_then(|cell| cell.get()))
    {
        monitor.record(layer, untracked(tensor::flat(measured.clone(), &device)));
    }
    y
}

/// The same by the kernels of a GPU.
#[cfg(feature = "gpu")]
fn on_device(
    qkv: Tensor<3>,
    mask: Option<Tensor<4>>,
    shape: AttentionShape,
    precision: PrecisionChoice,
    monitor: Option<(&AttentionMonitor, usize)>,
) -> Tensor<3> {
    let to_bf16 = precision == PrecisionChoice::Bf16;
    let function = kernel::DeviceAttention { shape, has_mask: mask.is_some(), to_bf16 };
    let mask = mask.map(|mask| mask.reshape([shape.batch * shape.score_elements()]));
    let (y, stats) = device::apply_and_keep(qkv, [mask, None], function, monitor.is_some());
    if let Some((monitor, layer)) = monitor {
        monitor.record(layer, device::apply(stats, [None, None], monitor_kernel::Summary(shape)));
    }
    y
}

/// The elements of the mask. An operation cannot return an error: NaN takes the place of a mask that cannot be read.
fn mask_elements(mask: Tensor<4>) -> Arc<[f32]> {
    let count = mask.shape().num_elements();
    let elements = tensor::read_f32(mask.reshape([count])).unwrap_or_else(|error| {
        tracing::error!("the dropout mask of attention: {}", error.message);
        vec![f32::NAN; count]
    });
    elements.into()
}

/// The same as a chain of tensor operations.
fn reference(
    qkv: Tensor<3>,
    mask: Option<Tensor<4>>,
    shape: AttentionShape,
    (precision, casts): (PrecisionChoice, ValueCasts<'_>),
    scope: TraceScope<'_>,
    monitor: Option<(&AttentionMonitor, usize)>,
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
    let scores = scores.mask_fill(future, f32::NEG_INFINITY);
    let softmax = activation::softmax(scores.clone(), 3);
    if let Some((monitor, layer)) = monitor {
        monitor.record(layer, monitor::measure(untracked(scores), untracked(softmax.clone())));
    }
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

/// True where position j is in position i's future: `[1, 1, block, block]`.
fn future(block: usize, device: &Device) -> Tensor<4, Bool> {
    let mask: Vec<bool> = (0..block * block).map(|index| index % block > index / block).collect();
    Tensor::from_data(TensorData::new(mask, [1, 1, block, block]), device)
}

/// Attention from the stacked q, k and v. The gradients of the two other inputs are those of scores and softmax, flat.
#[derive(Debug)]
struct Attention {
    shape: AttentionShape,
    mask: Option<Arc<[f32]>>,
    /// True if the softmax and the gradients of both products are rounded to bf16 before they are multiplied; q, k and
    /// v are rounded already.
    to_bf16: bool,
    /// The destination of the entropy of each head and of the largest score, if they are requested.
    measured: Option<Arc<OnceLock<Vec<f32>>>>,
}

impl Attention {
    /// The result of one sequence, and the largest score and the inverse sum of exponentials of every row. `entropies`,
    /// `[heads, block]` or empty, receives the entropy of every row.
    fn sequence_forward(
        &self,
        (qkv, mask): (&[f32], Option<&[f32]>),
        y: &mut [f32],
        stats: &mut [[f32; 2]],
        entropies: &mut [f32],
    ) {
        let AttentionShape { block, heads, width, .. } = self.shape;
        let mut softmax = zeros(QUERY_BLOCK.min(block) * block);
        for index in 0..heads {
            let head = Head { shape: self.shape, index, qkv, mask };
            for (first, end) in self.shape.query_blocks() {
                let softmax = &mut softmax[..(end - first) * end];
                head.scores((first, end), end, softmax);
                causal_rows(softmax, first, end, |row, past| {
                    let at = index * block + row;
                    match entropies.get_mut(at) {
                        None => stats[at] = loops::softmax(past, self.shape.scale()),
                        Some(entropy) => {
                            (stats[at], *entropy) = loops::softmax_and_entropy(past, self.shape.scale());
                        }
                    }
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

    /// The gradients of one sequence's q, k and v. Those of scores and softmax, `[heads, block, block]`, are written to
    /// the vectors in `traced`.
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

    /// The mean entropy of each head and the largest score, from the values of all rows, `[batch, heads, block]`. The
    /// score is NaN if a row's softmax is not finite.
    fn measured(&self, stats: &[[f32; 2]], entropies: &[f32]) -> Vec<f32> {
        let AttentionShape { batch, block, heads, .. } = self.shape;
        let mut measured = vec![0f64; heads];
        for (at, entropy) in entropies.iter().enumerate() {
            let weight = monitor::query_weight(at % block, batch * (block - 1));
            measured[at / block % heads] += f64::from(entropy * weight);
        }
        // The largest score of a row leaves NaN out, its sum does not.
        let score = |[top, inverse]: &[f32; 2]| if inverse.is_finite() { *top } else { f32::NAN };
        let larger = |a: f32, b: f32| if a.is_nan() || a > b { a } else { b };
        let largest = stats.iter().map(score).fold(f32::NEG_INFINITY, larger);
        measured.into_iter().map(|entropy| entropy as f32).chain([largest]).collect()
    }

    /// Rounds the operand of a product to bf16 if the product is in bf16.
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
        let rows = heads * block;
        let mut stats = vec![[0f32; 2]; batch * rows];
        let mut entropies = vec![0f32; if self.measured.is_some() { batch * rows } else { 0 }];
        let mut of_sequences: Vec<&mut [f32]> = entropies.chunks_mut(rows.max(1)).collect();
        of_sequences.resize_with(batch, Default::default);
        let parts = y.par_chunks_mut(block * width).zip(stats.par_chunks_mut(rows)).zip(of_sequences);
        let parts = parts.zip(elements(&qkv).par_chunks(3 * block * width)).enumerate();
        parts.for_each(|(index, (((y, stats), entropies), qkv))| {
            self.sequence_forward((qkv, self.mask(index)), y, stats, entropies);
        });
        if let Some(measured) = &self.measured {
            // Set once: the operation is applied once.
            let _ = measured.set(self.measured(&stats, &entropies));
        }
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
mod tests;
