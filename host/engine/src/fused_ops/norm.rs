//! LayerNorm over the last axis.

use burn::backend::flex::FlexTensor;
#[cfg(feature = "gpu")]
use burn::tensor::Shape;
use burn::tensor::Tensor;
#[cfg(test)]
use burn::tensor::module;
#[cfg(feature = "gpu")]
use burn_cubecl::tensor::CubeTensor;
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::{device::DeviceFunction, norm_kernel::RowNorm};
use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply_anywhere},
    loops,
};
use crate::tensor::cpu::{elements, flat, from_elements, into_unique, zeros};

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`. Shapes: `x` `[.., n]`, weight and bias `[n]`.
#[must_use]
pub fn layer_norm(x: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<3> {
    let function = LayerNorm { epsilon: epsilon as f32, bias: bias.is_some() };
    apply_anywhere(x, [Some(weight), bias], function)
}

/// The same as a chain of tensor operations.
#[cfg(test)]
fn reference(x: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<3> {
    module::layer_norm(x, weight, bias, epsilon)
}

/// LayerNorm of rows.
#[derive(Debug)]
pub struct LayerNorm {
    /// The term under the root.
    pub epsilon: f32,
    /// True if a bias is the third input.
    pub bias: bool,
}

/// Rows per parallel task.
fn rows_per_task(width: usize) -> usize {
    (CHUNK / width).max(1)
}

impl CpuFunction for LayerNorm {
    fn forward(&self, [x, weight, bias]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let (values, w) = (elements(&x), elements(&weight));
        let bias = self.bias.then(|| elements(&bias));
        let rows = rows_per_task(w.len());
        let mut y = zeros(values.len());
        let mut stats = vec![[0f32; 2]; values.len() / w.len()];
        let parts = y.par_chunks_mut(rows * w.len()).zip(stats.par_chunks_mut(rows));
        parts
            .zip(values.par_chunks(rows * w.len()))
            .for_each(|((y, stats), x)| loops::norm(x, w, bias, self.epsilon, y, stats));
        let y = from_elements(y, x.layout().shape().clone());
        (y, if tracked { vec![x, weight, flat(stats.into_flattened())] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let mut grad = into_unique(grad);
        let (x, w) = (elements(&saved[0]), elements(&saved[1]));
        let (stats, rows) = (elements(&saved[2]).as_chunks().0, rows_per_task(w.len()));
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

#[cfg(feature = "gpu")]
impl DeviceFunction for LayerNorm {
    fn inputs(&self) -> usize {
        2 + usize::from(self.bias)
    }

    fn shapes(&self, [x, weight, _]: [&Shape; 3]) -> [Shape; 2] {
        RowNorm::shapes(x, weight)
    }

    fn forward(&self, inputs: [CubeTensor; 3], outputs: [CubeTensor; 2], _: bool) {
        self.rows().forward(inputs, outputs);
    }

    fn backward(&self, inputs: [CubeTensor; 3], stats: CubeTensor, grad: CubeTensor, to: [CubeTensor; 3]) {
        self.rows().backward(inputs, [stats, grad], to);
    }
}

#[cfg(feature = "gpu")]
impl LayerNorm {
    fn rows(&self) -> RowNorm {
        RowNorm { epsilon: self.epsilon, is_centered: true, has_bias: self.bias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fused_ops::testing::compare, tensor::testing::numbers};

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for [rows, width] in [[1, 1], [3, 8], [5, 17], [300, 128], [3, 20_000]] {
            let inputs = [(1, rows * width), (2, width), (3, width)].map(|(seed, len)| numbers(seed, len));
            let of = |op: fn(Tensor<3>, Tensor<1>, Option<Tensor<1>>, f64) -> Tensor<3>| {
                move |[x, w, b]: [Tensor<1>; 3]| {
                    op(x.reshape([1, rows, width]), w, Some(b), 1e-5).reshape([rows * width])
                }
            };
            compare(&inputs, 1e-5, of(layer_norm), of(reference));
        }
    }
}
