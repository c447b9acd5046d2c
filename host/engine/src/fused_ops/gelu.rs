//! GELU with the exact normal distribution.

use burn::backend::flex::FlexTensor;
#[cfg(feature = "gpu")]
use burn::tensor::Shape;
use burn::tensor::Tensor;
#[cfg(test)]
use burn::tensor::activation;
#[cfg(feature = "gpu")]
use burn_cubecl::tensor::CubeTensor;
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::{device::DeviceFunction, gelu_kernel};
use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply_anywhere},
    loops,
};
use crate::tensor::cpu::{elements, from_elements, into_unique, zeros};

/// `x Phi(x)`, element by element.
#[must_use]
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    apply_anywhere(x, [None, None], Gelu)
}

/// The same as a chain of tensor operations.
#[cfg(test)]
fn reference<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::gelu(x)
}

/// GELU of each element.
#[derive(Debug)]
pub struct Gelu;

impl CpuFunction for Gelu {
    fn forward(&self, [x, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let values = elements(&x);
        let mut y = zeros(values.len());
        y.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(y, x)| loops::gelu(x, y));
        let y = from_elements(y, x.layout().shape().clone());
        (y, if tracked { vec![x] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let mut grad = into_unique(grad);
        let parts = grad.storage_mut::<f32>().par_chunks_mut(CHUNK);
        parts.zip(elements(&saved[0]).par_chunks(CHUNK)).for_each(|(grad, x)| loops::gelu_backward(x, grad));
        [Some(grad), None, None]
    }
}

#[cfg(feature = "gpu")]
impl DeviceFunction for Gelu {
    fn inputs(&self) -> usize {
        1
    }

    /// Nothing is saved but the input.
    fn shapes(&self, [x, ..]: [&Shape; 3]) -> [Shape; 2] {
        [x.clone(), Shape::from([1])]
    }

    fn forward(&self, [x, ..]: [CubeTensor; 3], [y, _]: [CubeTensor; 2], _: bool) {
        gelu_kernel::forward(x, y);
    }

    fn backward(&self, [x, ..]: [CubeTensor; 3], _: CubeTensor, grad: CubeTensor, [to, ..]: [CubeTensor; 3]) {
        gelu_kernel::backward(x, grad, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fused_ops::testing::compare, tensor::testing::numbers};

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for len in [1, 15, 40_000] {
            let x = numbers(len as u64, len).into_iter().map(|x| 8.0 * x).collect();
            compare(&[x], 3e-7, |[x]| gelu(x), |[x]| reference(x));
        }
    }
}
