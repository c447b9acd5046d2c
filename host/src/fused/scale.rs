//! A tensor times a number.

use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{Function, Kept, PART, apply, loops, on, own};

/// `x factor`, in x's own memory if nothing else uses it.
#[must_use]
pub fn scaled(x: Tensor<1>, factor: f32) -> Tensor<1> {
    if on(&x.device()) { apply(x, [None, None], Scale { factor }) } else { plain(x, factor) }
}

/// The same, of tensor operations.
fn plain(x: Tensor<1>, factor: f32) -> Tensor<1> {
    x.mul_scalar(factor)
}

#[derive(Debug)]
struct Scale {
    factor: f32,
}

impl Function for Scale {
    fn forward(&self, [x, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, Kept) {
        let mut x = own(x);
        x.storage_mut::<f32>().par_chunks_mut(PART).for_each(|part| loops::scale(part, self.factor));
        (x, Vec::new())
    }

    fn backward(&self, _: Kept, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [Some(self.forward([grad.clone(), grad.clone(), grad], false).0), None, None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::testing::{compare, numbers};

    #[test]
    fn as_the_chain() {
        compare(&[numbers(1, 100_000)], 1e-7, |[x]| scaled(x, 0.3), |[x]| plain(x, 0.3));
    }
}
