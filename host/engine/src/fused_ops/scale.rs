//! A tensor times a number.

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply},
    loops,
};
use crate::tensor::cpu::into_unique;

/// `x * factor` for each of these tensors, which are outside of any autodiff graph; in the memory of `x` if nothing
/// else uses it.
#[must_use]
pub fn all_scaled(tensors: Vec<Tensor<1>>, factor: f32) -> Vec<Tensor<1>> {
    #[cfg(feature = "gpu")]
    if tensors.first().is_some_and(|x| !super::is_available(&x.device())) {
        return super::scale_kernel::scaled(tensors, factor);
    }
    tensors.into_iter().map(|x| scaled(x, factor)).collect()
}

/// The same on the CPU.
fn scaled(x: Tensor<1>, factor: f32) -> Tensor<1> {
    apply(x, [None, None], Scale { factor })
}

/// The same as a chain of tensor operations.
#[cfg(test)]
fn reference(x: Tensor<1>, factor: f32) -> Tensor<1> {
    x.mul_scalar(factor)
}

#[derive(Debug)]
struct Scale {
    factor: f32,
}

impl CpuFunction for Scale {
    fn forward(&self, [x, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, SavedTensors) {
        let mut x = into_unique(x);
        x.storage_mut::<f32>().par_chunks_mut(CHUNK).for_each(|part| loops::scale(part, self.factor));
        (x, Vec::new())
    }

    fn backward(&self, _: SavedTensors, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [Some(self.forward([grad.clone(), grad.clone(), grad], false).0), None, None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fused_ops::testing::compare, tensor::testing::numbers};

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        compare(&[numbers(1, 100_000)], 1e-7, |[x]| scaled(x, 0.3), |[x]| reference(x, 0.3));
    }
}
