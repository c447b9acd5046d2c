//! RMSNorm of each head's queries and keys (arXiv:2302.05442), in the stacked queries, keys and values.

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    attention::AttentionShape,
    function::{CHUNK, CpuFunction, SavedTensors, apply, is_available},
    loops,
};
use crate::tensor::cpu::{elements, flat, from_elements, into_unique, zeros};

/// `x / sqrt(mean(x^2) + epsilon) * gain` of each head of the queries and of the keys; values stay as they are. Shapes:
/// `qkv` and the result `[batch, block, 3 width]`, gains `[head width]`, shared by all heads.
#[must_use]
pub fn qk_norm(qkv: Tensor<3>, gains: [Tensor<1>; 2], shape: AttentionShape, epsilon: f64) -> Tensor<3> {
    if !is_available(&qkv.device()) {
        return reference(qkv, gains, shape, epsilon);
    }
    apply(qkv, gains.map(Some), QkNorm { shape, epsilon: epsilon as f32 })
}

/// The same as a chain of tensor operations.
fn reference(qkv: Tensor<3>, gains: [Tensor<1>; 2], shape: AttentionShape, epsilon: f64) -> Tensor<3> {
    let AttentionShape { batch, block, heads, width } = shape;
    let normed = |index: usize, gain: Tensor<1>| {
        let part = qkv.clone().narrow(2, index * width, width);
        let part = part.reshape([batch, block, heads, shape.head_width()]);
        let mean_square = (part.clone() * part.clone()).mean_dim(3);
        (part / mean_square.add_scalar(epsilon).sqrt() * gain.unsqueeze()).reshape([batch, block, width])
    };
    let [q, k] = gains;
    Tensor::cat(vec![normed(0, q), normed(1, k), qkv.clone().narrow(2, 2 * width, width)], 2)
}

/// The inputs are the stacked tensor and the gains of queries and keys.
#[derive(Debug)]
struct QkNorm {
    shape: AttentionShape,
    epsilon: f32,
}

impl QkNorm {
    /// Tokens per parallel task.
    fn tokens_per_task(&self) -> usize {
        (CHUNK / (3 * self.shape.width)).max(1)
    }
}

impl CpuFunction for QkNorm {
    fn forward(&self, [x, q, k]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let AttentionShape { heads, width, .. } = self.shape;
        let (values, gains) = (elements(&x), [elements(&q), elements(&k)]);
        let (mut y, mut inverses) = (zeros(values.len()), zeros(values.len() / (3 * width) * 2 * heads));
        let tokens = self.tokens_per_task();
        let parts = y.par_chunks_mut(tokens * 3 * width).zip(inverses.par_chunks_mut(tokens * 2 * heads));
        parts.zip(values.par_chunks(tokens * 3 * width)).for_each(|((y, inverses), x)| {
            let rows = y.chunks_exact_mut(3 * width).zip(inverses.chunks_exact_mut(2 * heads));
            for ((y, inverses), x) in rows.zip(x.chunks_exact(3 * width)) {
                for (index, gain) in gains.iter().enumerate() {
                    let (at, kept) = (index * width..(index + 1) * width, index * heads..(index + 1) * heads);
                    loops::rms_norm(&x[at.clone()], gain, self.epsilon, &mut y[at], &mut inverses[kept]);
                }
                y[2 * width..].copy_from_slice(&x[2 * width..]);
            }
        });
        let y = from_elements(y, x.layout().shape().clone());
        (y, if tracked { vec![x, q, k, flat(inverses)] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let AttentionShape { heads, width, .. } = self.shape;
        let mut grad = into_unique(grad);
        let (x, gains, inverses) =
            (elements(&saved[0]), [elements(&saved[1]), elements(&saved[2])], elements(&saved[3]));
        let tokens = self.tokens_per_task();
        let parts = grad.storage_mut::<f32>().par_chunks_mut(tokens * 3 * width);
        let parts = parts.zip(x.par_chunks(tokens * 3 * width)).zip(inverses.par_chunks(tokens * 2 * heads));
        let sums: Vec<[Vec<f32>; 2]> = parts
            .map(|((grad, x), inverses)| {
                let mut sums = gains.map(|gain| zeros(gain.len()));
                let rows = grad.chunks_exact_mut(3 * width).zip(x.chunks_exact(3 * width));
                for ((grad, x), inverses) in rows.zip(inverses.chunks_exact(2 * heads)) {
                    for (index, (gain, sums)) in gains.iter().zip(&mut sums).enumerate() {
                        let (at, kept) =
                            (index * width..(index + 1) * width, index * heads..(index + 1) * heads);
                        let (x, inverses) = (&x[at.clone()], &inverses[kept]);
                        loops::rms_norm_backward(x, gain, inverses, &mut grad[at], sums);
                    }
                }
                sums
            })
            .collect();
        let total = |index: usize| {
            let mut total = zeros(gains[index].len());
            for part in &sums {
                total.iter_mut().zip(&part[index]).for_each(|(sum, part)| *sum += part);
            }
            flat(total)
        };
        let [q, k] = [0, 1].map(|index| wanted[index + 1].then(|| total(index)));
        [Some(grad), q, k]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        device::ComputeDevice,
        fused_ops::testing::compare,
        tensor::{read_f32, testing::numbers},
    };

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for [batch, block, heads, width] in [[1, 1, 1, 2], [2, 5, 3, 12], [3, 64, 4, 128]] {
            let (shape, len) = (AttentionShape { batch, block, heads, width }, batch * block * 3 * width);
            let inputs = [(1, len), (2, width / heads), (3, width / heads)];
            let inputs = inputs.map(|(seed, len)| numbers(seed, len));
            let of = |op: fn(Tensor<3>, [Tensor<1>; 2], AttentionShape, f64) -> Tensor<3>| {
                move |[x, q, k]: [Tensor<1>; 3]| {
                    op(x.reshape([batch, block, 3 * width]), [q, k], shape, 1e-5).reshape([len])
                }
            };
            compare(&inputs, 1e-5, of(qk_norm), of(reference));
        }
    }

    /// Two heads of width 2 with root mean squares 5/sqrt(2) and 1: a mean over all heads would give others.
    #[test]
    fn each_head_has_its_own_mean_and_all_share_a_gain() {
        let device = ComputeDevice::cpu().tensors;
        let tensor = |values: &[f32]| crate::tensor::flat(values.to_vec(), &device);
        let x = tensor(&[3.0, 4.0, 1.0, -1.0, 1.0, -1.0, 3.0, 4.0, 9.0, 8.0, 7.0, 6.0]);
        let shape = AttentionShape { batch: 1, block: 1, heads: 2, width: 4 };
        let y = qk_norm(x.reshape([1, 1, 12]), [tensor(&[1.0, 2.0]), tensor(&[10.0, 1.0])], shape, 0.0);
        let y = read_f32(y.reshape([12])).unwrap();
        let unit = f32::sqrt(2.0) / 5.0;
        let expected =
            [3.0 * unit, 8.0 * unit, 1.0, -2.0, 10.0, -1.0, 30.0 * unit, 4.0 * unit, 9.0, 8.0, 7.0, 6.0];
        for (y, expected) in y.iter().zip(expected) {
            assert!((y - expected).abs() < 2e-6, "{y}, expected {expected}");
        }
    }
}
