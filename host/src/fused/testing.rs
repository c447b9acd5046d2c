//! Holds an operation against its chain of tensor operations in f64, forward and backward.

use burn::tensor::{DType, FloatDType, Tensor};

use crate::{device::ComputeDevice, model::params};

/// Numbers between -1 and 1, always the same for a seed.
pub(super) fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// The result and the inputs' gradients of a weighted sum over it.
fn run<const N: usize>(
    inputs: &[Vec<f32>; N],
    wide: bool,
    op: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) -> Vec<Vec<f64>> {
    let device = ComputeDevice::cpu().tensors;
    let cast = |x: Tensor<1>| if wide { x.cast(FloatDType::F64) } else { x };
    let leaf = |values: &Vec<f32>| {
        let leaf = cast(params::flat(values.clone(), &device));
        Tensor::from_inner(leaf).require_grad()
    };
    let leaves = inputs.each_ref().map(leaf);
    let y = op(leaves.clone());
    let weights = cast(params::flat(numbers(77, y.dims()[0]), &device));
    let tape = (y.clone() * Tensor::from_inner(weights)).sum().backward();
    let grads = leaves.iter().map(|leaf| leaf.grad(&tape).expect("a gradient"));
    let read = |x: Tensor<1>| {
        let data = x.into_data();
        assert_eq!(data.dtype(), if wide { DType::F64 } else { DType::F32 });
        data.iter::<f64>().collect()
    };
    std::iter::once(y.inner()).chain(grads).map(read).collect()
}

/// Asserts that result and gradients of `fused` are those of `plain` in f64, up to `tolerance` times the largest
/// magnitude of each tensor; and that they are the same to the bit on one thread.
pub(super) fn compare<const N: usize>(
    inputs: &[Vec<f32>; N],
    tolerance: f64,
    fused: impl Fn([Tensor<1>; N]) -> Tensor<1> + Sync,
    plain: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) {
    let (found, expected) = (run(inputs, false, &fused), run(inputs, true, plain));
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let size = expected.iter().fold(1e-30, |size: f64, x| size.max(x.abs()));
        assert_eq!(found.len(), expected.len());
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let off = (found - expected).abs() / size;
            assert!(off <= tolerance, "tensor {index}, element {place}: {found}, {expected}, off by {off:e}");
        }
    }
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    assert!(one.install(|| run(inputs, false, &fused)) == found, "depends on the number of threads");
}
