//! SwiGLU (arXiv:2002.05202) of a stacked gate and linear half, and the scales of its smoothed form (arXiv:2409.12517).

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation};
use rayon::prelude::*;

use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply, is_available},
    loops,
};
use crate::tensor::cpu::{elements, flat, from_elements, zeros};

/// `silu(gate) * (linear / scale)`, with `silu(g) = g / (1 + e^-g)`. Shapes: `x` `[batch, block, 2 n]`, the gate's half
/// first; scales `[batch * block]`, constants for the backward pass, 1 if there are none; result `[batch, block, n]`.
#[must_use]
pub fn swiglu(x: Tensor<3>, scales: Option<Tensor<1>>) -> Tensor<3> {
    if is_available(&x.device()) {
        let scaled = scales.is_some();
        apply(x, [scales, None], Swiglu { scaled })
    } else {
        reference(x, scales)
    }
}

/// The same as a chain of tensor operations.
fn reference(x: Tensor<3>, scales: Option<Tensor<1>>) -> Tensor<3> {
    let [batch, block, width] = x.dims();
    let (gate, linear) = (x.clone().narrow(2, 0, width / 2), x.narrow(2, width / 2, width / 2));
    let linear = match scales {
        Some(scales) => linear / scales.reshape([batch, block, 1]),
        None => linear,
    };
    activation::silu(gate) * linear
}

/// The scale of each token: the largest magnitude of the linear half, 1 where that is 0. Without a gradient. Shapes:
/// `x` `[batch, block, 2 n]`, result `[batch * block]`.
#[must_use]
pub fn scales(x: &Tensor<3>) -> Tensor<1> {
    let x = x.clone().detach().set_require_grad(false);
    if is_available(&x.device()) { apply(x, [None, None], Scales) } else { reference_scales(x) }
}

/// The same as a chain of tensor operations.
fn reference_scales(x: Tensor<3>) -> Tensor<1> {
    let [batch, block, width] = x.dims();
    let largest = x.narrow(2, width / 2, width / 2).abs().max_dim(2).reshape([batch * block]);
    let zero = largest.clone().equal_elem(0.0);
    largest.mask_fill(zero, 1.0)
}

/// The first input is `x`, the second the scales if it is `scaled`.
#[derive(Debug)]
struct Swiglu {
    scaled: bool,
}

impl Swiglu {
    fn scale(&self, scales: &[f32], row: usize) -> f32 {
        if self.scaled { scales[row] } else { 1.0 }
    }
}

impl CpuFunction for Swiglu {
    fn forward(&self, [x, scales, _]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        let (values, factors) = (elements(&x), elements(&scales));
        let mut shape = x.layout().shape().clone();
        let width = shape[2];
        shape[2] = width / 2;
        let mut y = zeros(values.len() / 2);
        let rows = y.par_chunks_mut(width / 2).zip(values.par_chunks(width)).enumerate();
        rows.with_min_len(CHUNK.div_ceil(width))
            .for_each(|(row, (y, x))| loops::swiglu(x, self.scale(factors, row), y));
        (from_elements(y, shape), if tracked { vec![x, scales] } else { Vec::new() })
    }

    fn backward(&self, saved: SavedTensors, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let (values, factors) = (elements(&saved[0]), elements(&saved[1]));
        let shape = saved[0].layout().shape().clone();
        let width = shape[2];
        let mut to = zeros(values.len());
        let rows = to.par_chunks_mut(width).zip(values.par_chunks(width));
        rows.zip(elements(&grad).par_chunks(width / 2))
            .enumerate()
            .with_min_len(CHUNK.div_ceil(width))
            .for_each(|(row, ((to, x), grad))| {
                loops::swiglu_backward(x, self.scale(factors, row), grad, to);
            });
        [Some(from_elements(to, shape)), None, None]
    }
}

/// The scales of rows. It has no backward pass.
#[derive(Debug)]
struct Scales;

impl CpuFunction for Scales {
    fn forward(&self, [x, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, SavedTensors) {
        let width = x.layout().shape()[2];
        let rows = elements(&x).par_chunks(width).with_min_len(CHUNK.div_ceil(width));
        let scales = rows.map_init(
            || zeros(width / 2),
            |magnitudes, row| match loops::largest_magnitude(&row[width / 2..], magnitudes) {
                0.0 => 1.0,
                largest => largest,
            },
        );
        (flat(scales.collect()), Vec::new())
    }

    fn backward(&self, _: SavedTensors, _: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [None, None, None]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        device::ComputeDevice,
        fused_ops::testing::compare,
        tensor::{flat, read_f32, testing::numbers},
    };

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for [rows, width] in [[1, 1], [3, 17], [300, 352]] {
            let x: Vec<f32> = numbers(1, rows * 2 * width).into_iter().map(|x| 8.0 * x).collect();
            let shaped = |x: Tensor<1>| x.reshape([1, rows, 2 * width]);
            let len = rows * width;
            let plain = |op: fn(Tensor<3>, Option<Tensor<1>>) -> Tensor<3>| {
                move |[x]: [Tensor<1>; 1]| op(shaped(x), None).reshape([len])
            };
            compare(std::array::from_ref(&x), 5e-7, plain(swiglu), plain(reference));
            let smooth = |[x]: [Tensor<1>; 1]| {
                let x = shaped(x);
                let scales = scales(&x);
                swiglu(x, Some(scales)).reshape([len])
            };
            let smooth_reference = |[x]: [Tensor<1>; 1]| {
                let x = shaped(x);
                let scales = reference_scales(x.clone().detach());
                reference(x, Some(scales)).reshape([len])
            };
            compare(&[x], 5e-7, smooth, smooth_reference);
        }
    }

    /// silu(2) = 2 / (1 + e^-2), silu(-1) = -1 / (1 + e).
    #[test]
    fn the_gate_comes_first_and_scales_are_of_the_linear_half() {
        let x = flat(vec![2.0, -1.0, 3.0, -5.0, 9.0, 9.0, 0.0, 0.0], &ComputeDevice::cpu().tensors);
        let x = x.reshape([1, 2, 4]);
        let scales = scales(&x);
        assert_eq!(read_f32(scales.clone()).unwrap(), [5.0, 1.0]);
        let silu = |x: f64| x / (1.0 + (-x).exp());
        let expected = [silu(2.0) * 3.0, silu(-1.0) * -5.0, 0.0, 0.0];
        for (scales, by) in [(None, 1.0), (Some(scales), 5.0)] {
            let y = read_f32(swiglu(x.clone(), scales).reshape([4])).unwrap();
            for (y, expected) in y.iter().zip(expected) {
                assert!((f64::from(*y) - expected / by).abs() < 1e-6, "{y}, expected {expected} / {by}");
            }
        }
    }
}
