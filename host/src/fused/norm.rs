//! LayerNorm over the last axis.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, module};
use rayon::prelude::*;

use super::{Function, Kept, PART, apply, flat, loops, on, own, zeros};
use crate::quant::op::{elements, flex};

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`. Shapes: `x` `[.., n]`, weight and bias `[n]`.
#[must_use]
pub fn layer_norm(x: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<3> {
    if !on(&x.device()) {
        return plain(x, weight, bias, epsilon);
    }
    let function = LayerNorm { epsilon: epsilon as f32, bias: bias.is_some() };
    apply(x, [Some(weight), bias], function)
}

/// The same, of tensor operations.
fn plain(x: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<3> {
    module::layer_norm(x, weight, bias, epsilon)
}

#[derive(Debug)]
struct LayerNorm {
    epsilon: f32,
    bias: bool,
}

/// Rows a thread takes at once.
fn rows(width: usize) -> usize {
    (PART / width).max(1)
}

impl Function for LayerNorm {
    fn forward(&self, [x, weight, bias]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept) {
        let (values, w) = (elements(&x), elements(&weight));
        let bias = self.bias.then(|| elements(&bias));
        let rows = rows(w.len());
        let mut y = zeros(values.len());
        let mut stats = vec![[0f32; 2]; values.len() / w.len()];
        let parts = y.par_chunks_mut(rows * w.len()).zip(stats.par_chunks_mut(rows));
        parts
            .zip(values.par_chunks(rows * w.len()))
            .for_each(|((y, stats), x)| loops::norm(x, w, bias, self.epsilon, y, stats));
        let y = flex(y, x.layout().shape().clone());
        (y, if tracked { vec![x, weight, flat(stats.into_flattened())] } else { Vec::new() })
    }

    fn backward(&self, kept: Kept, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let mut grad = own(grad);
        let (x, w) = (elements(&kept[0]), elements(&kept[1]));
        let (stats, rows) = (elements(&kept[2]).as_chunks().0, rows(w.len()));
        let parts = grad.storage_mut::<f32>().par_chunks_mut(rows * w.len()).zip(stats.par_chunks(rows));
        let sums: Vec<[Vec<f32>; 2]> = parts
            .zip(x.par_chunks(rows * w.len()))
            .map(|((grad, stats), x)| {
                let [mut weight, mut bias] = [zeros(w.len()), zeros(w.len())];
                loops::norm_backward(x, w, stats, grad, [&mut weight, &mut bias]);
                [weight, bias]
            })
            .collect();
        let total = |index: usize| {
            let mut total = zeros(w.len());
            for part in &sums {
                total.iter_mut().zip(&part[index]).for_each(|(sum, part)| *sum += part);
            }
            flat(total)
        };
        let [_, weight, bias] = wanted;
        [Some(grad), weight.then(|| total(0)), (bias && self.bias).then(|| total(1))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::testing::{compare, numbers};

    #[test]
    fn as_the_chain() {
        for [rows, width] in [[1, 1], [3, 8], [5, 17], [300, 128], [3, 20_000]] {
            let inputs = [(1, rows * width), (2, width), (3, width)].map(|(seed, len)| numbers(seed, len));
            let of = |op: fn(Tensor<3>, Tensor<1>, Option<Tensor<1>>, f64) -> Tensor<3>| {
                move |[x, w, b]: [Tensor<1>; 3]| {
                    op(x.reshape([1, rows, width]), w, Some(b), 1e-5).reshape([rows * width])
                }
            };
            compare(&inputs, 1e-5, of(layer_norm), of(plain));
        }
    }
}
