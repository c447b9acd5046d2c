//! GELU with the exact normal distribution.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation};
use rayon::prelude::*;

use super::{Function, Kept, PART, apply, loops, on, own, zeros};
use crate::quant::op::{elements, flex};

/// `x Phi(x)`, element by element.
#[must_use]
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if on(&x.device()) { apply(x, [None, None], Gelu) } else { plain(x) }
}

/// The same, of tensor operations.
fn plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::gelu(x)
}

#[derive(Debug)]
struct Gelu;

impl Function for Gelu {
    fn forward(&self, [x, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, Kept) {
        let values = elements(&x);
        let mut y = zeros(values.len());
        y.par_chunks_mut(PART).zip(values.par_chunks(PART)).for_each(|(y, x)| loops::gelu(x, y));
        let y = flex(y, x.layout().shape().clone());
        (y, if tracked { vec![x] } else { Vec::new() })
    }

    fn backward(&self, kept: Kept, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let mut grad = own(grad);
        let parts = grad.storage_mut::<f32>().par_chunks_mut(PART);
        parts.zip(elements(&kept[0]).par_chunks(PART)).for_each(|(grad, x)| loops::gelu_backward(x, grad));
        [Some(grad), None, None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::testing::{compare, numbers};

    #[test]
    fn as_the_chain() {
        for len in [1, 15, 40_000] {
            let x = numbers(len as u64, len).into_iter().map(|x| 8.0 * x).collect();
            compare(&[x], 3e-7, |[x]| gelu(x), |[x]| plain(x));
        }
    }
}
