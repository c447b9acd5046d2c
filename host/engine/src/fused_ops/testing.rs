//! Comparison of an operation with its chain of tensor operations in f64, forward and backward.

use burn::tensor::{DType, FloatDType, Tensor};

use crate::{
    device::ComputeDevice,
    tensor::{flat, testing::numbers},
};

/// The result and the inputs' gradients of a weighted sum over it.
pub(super) fn run<const N: usize>(
    inputs: &[Vec<f32>; N],
    wide: bool,
    op: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) -> Vec<Vec<f64>> {
    let device = ComputeDevice::cpu().tensors;
    let cast = |x: Tensor<1>| if wide { x.cast(FloatDType::F64) } else { x };
    let leaf = |values: &Vec<f32>| {
        let leaf = cast(flat(values.clone(), &device));
        Tensor::from_inner(leaf).require_grad()
    };
    let leaves = inputs.each_ref().map(leaf);
    let y = op(leaves.clone());
    let weights = cast(flat(numbers(77, y.dims()[0]), &device));
    let tape = (y.clone() * Tensor::from_inner(weights)).sum().backward();
    let grads = leaves.iter().map(|leaf| leaf.grad(&tape).expect("a gradient"));
    let read = |x: Tensor<1>| {
        let data = x.into_data();
        assert_eq!(data.dtype(), if wide { DType::F64 } else { DType::F32 });
        data.iter::<f64>().collect()
    };
    std::iter::once(y.inner()).chain(grads).map(read).collect()
}

/// Asserts that result and gradients of `op` are those of `reference` in f64, up to `tolerance` times the largest
/// magnitude of each tensor; and that they are bit-identical on one thread.
pub(super) fn compare<const N: usize>(
    inputs: &[Vec<f32>; N],
    tolerance: f64,
    op: impl Fn([Tensor<1>; N]) -> Tensor<1> + Sync,
    reference: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) {
    let (found, expected) = (run(inputs, false, &op), run(inputs, true, reference));
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let size = expected.iter().fold(1e-30, |size: f64, x| size.max(x.abs()));
        assert_eq!(found.len(), expected.len());
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let off = (found - expected).abs() / size;
            assert!(off <= tolerance, "tensor {index}, element {place}: {found}, {expected}, off by {off:e}");
        }
    }
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    assert!(one.install(|| run(inputs, false, &op)) == found, "depends on the number of threads");
}
