//! RMSNorm over the last axis (arXiv:1910.07467), without a bias.

use burn::backend::flex::FlexTensor;
#[cfg(feature = "gpu")]
use burn::tensor::Shape;
use burn::tensor::Tensor;
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

/// `x / sqrt(mean(x^2) + epsilon) * weight`. Shapes: `x` `[.., n]`, weight `[n]`.
#[must_use]
pub fn rms_norm(x: Tensor<3>, weight: Tensor<1>, epsilon: f64) -> Tensor<3> {
    apply_anywhere(x, [Some(weight), None], RmsNorm { epsilon: epsilon as f32 })
}

/// The same as a chain of tensor operations.
#[cfg(test)]
fn reference(x: Tensor<3>, weight: Tensor<1>, epsilon: f64) -> Tensor<3> {
    let mean_square = (x.clone() * x.clone()).mean_dim(2);
    x / mean_square.add_scalar(epsilon).sqrt() * weight.unsqueeze()
}

/// RMSNorm of rows.
#[derive(Debug)]
pub struct RmsNorm {
    /// The term under the root.
    pub epsilon: f32,
}

/// Rows per parallel task.
fn rows_per_task(width: usize) -> usize {
    (CHUNK / width).max(1)
}

impl CpuFunction for RmsNorm {
    fn forward(&self, [x, weight, _]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let (values, w) = (elements(&x), elements(&weight));
        let rows = rows_per_task(w.len());
        let mut y = zeros(values.len());
        let mut inverses = zeros(values.len() / w.len());
        let parts = y.par_chunks_mut(rows * w.len()).zip(inverses.par_chunks_mut(rows));
        parts
            .zip(values.par_chunks(rows * w.len()))
            .for_each(|((y, inverses), x)| loops::rms_norm(x, w, self.epsilon, y, inverses));
        let y = from_elements(y, x.layout().shape().clone());
        (y, if tracked { vec![x, weight, flat(inverses)] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let mut grad = into_unique(grad);
        let (x, w) = (elements(&saved[0]), elements(&saved[1]));
        let (inverses, rows) = (elements(&saved[2]), rows_per_task(w.len()));
        let parts = grad.storage_mut::<f32>().par_chunks_mut(rows * w.len()).zip(inverses.par_chunks(rows));
        let sums: Vec<Vec<f32>> = parts
            .zip(x.par_chunks(rows * w.len()))
            .map(|((grad, inverses), x)| {
                let mut weight = zeros(w.len());
                loops::rms_norm_backward(x, w, inverses, grad, &mut weight);
                weight
            })
            .collect();
        let total = || {
            let mut total = zeros(w.len());
            for part in &sums {
                total.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            flat(total)
        };
        [Some(grad), wanted[1].then(total), None]
    }
}

#[cfg(feature = "gpu")]
impl DeviceFunction for RmsNorm {
    fn inputs(&self) -> usize {
        2
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
impl RmsNorm {
    fn rows(&self) -> RowNorm {
        RowNorm { epsilon: self.epsilon, is_centered: false, has_bias: false }
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
        for [rows, width] in [[1, 2], [3, 8], [5, 17], [300, 128], [3, 20_000]] {
            let inputs = [(1, rows * width), (2, width)].map(|(seed, len)| numbers(seed, len));
            let of = |op: fn(Tensor<3>, Tensor<1>, f64) -> Tensor<3>| {
                move |[x, w]: [Tensor<1>; 2]| op(x.reshape([1, rows, width]), w, 1e-5).reshape([rows * width])
            };
            compare(&inputs, 1e-5, of(rms_norm), of(reference));
        }
    }

    /// With one channel the gradient is `weight epsilon / (x^2 + epsilon)^1.5`: the difference of two terms near
    /// `weight / |x|`, of whose rounding the error is.
    #[test]
    fn the_gradient_of_a_single_channel_is_off_by_the_rounding_of_its_terms() {
        let (device, weight, epsilon) = (ComputeDevice::cpu().tensors, 1.5, 1e-5);
        for x in [-2.0, -0.003, 0.0, 1e-4, 0.4] {
            let leaf =
                |value| Tensor::<1>::from_inner(crate::tensor::flat(vec![value], &device)).require_grad();
            let (x_leaf, w_leaf) = (leaf(x as f32), leaf(weight as f32));
            let y = rms_norm(x_leaf.clone().reshape([1, 1, 1]), w_leaf, epsilon);
            let tape = y.sum().backward();
            let found = f64::from(read_f32(x_leaf.grad(&tape).unwrap()).unwrap()[0]);
            let square: f64 = x * x + epsilon;
            let (exact, terms) = (weight * epsilon / square.powf(1.5), weight / square.sqrt());
            assert!((found - exact).abs() < 1e-6 * terms, "at {x}: {found}, expected {exact}");
        }
    }
}
