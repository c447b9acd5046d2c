//! Fused differentiable operations on GPUs against those of the CPU, which unit tests compare with chains in f64:
//! results and gradients to a few units of the largest term, the same bits again, and rows that are not finite.
//!
//! A device that does not answer is reported as skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]
// Sums are only the roots of backward passes.
#![allow(clippy::disallowed_methods)]

use altgrad_config::PrecisionChoice;
use altgrad_end_to_end::Random;
use altgrad_engine::{
    device::ComputeDevice,
    fused_ops::{
        attention::{self, AttentionMonitor, AttentionShape},
        gelu, loss, norm, rms_norm,
    },
    model::Dropout,
    quant::{QuantPass, Quantizer},
    read_back::ReadBack,
    tensor::{flat, read_f32},
    trace::TraceScope,
};
use burn::tensor::Tensor;

use super::devices;

/// Rows and columns: of one element, fewer and more than a cube's units, more rows than cubes; none a multiple of 128.
const SHAPES: [[usize; 2]; 5] = [[1, 1], [3, 7], [5, 612], [1100, 36], [2, 20_001]];

fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    (0..len).map(|_| 4.0 * random.unit() as f32 - 2.0).collect()
}

/// The result and the inputs' gradients of a weighted sum over it.
fn run<const N: usize>(
    device: &ComputeDevice,
    inputs: &[Vec<f32>; N],
    op: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) -> Vec<Vec<f32>> {
    let leaves = inputs
        .each_ref()
        .map(|values| Tensor::from_inner(flat(values.clone(), &device.tensors)).require_grad());
    let y = op(leaves.clone());
    let weights = Tensor::from_inner(flat(numbers(77, y.dims()[0]), &device.tensors));
    let tape = (y.clone() * weights).sum().backward();
    let grads = leaves.iter().map(|leaf| leaf.grad(&tape).unwrap());
    std::iter::once(y.inner()).chain(grads).map(|x| read_f32(x).unwrap()).collect()
}

/// Asserts that a device computes what the CPU does, up to `tolerance` times the largest magnitude of each tensor,
/// twice the same, and NaN where the CPU does.
fn compare<const N: usize>(
    device: &ComputeDevice,
    inputs: &[Vec<f32>; N],
    tolerance: f32,
    op: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) {
    compare_sums(device, inputs, (tolerance, 0.0), op);
}

/// The same for tensors whose sums have terms of this magnitude, which may cancel.
fn compare_sums<const N: usize>(
    device: &ComputeDevice,
    inputs: &[Vec<f32>; N],
    (tolerance, terms): (f32, f32),
    op: impl Fn([Tensor<1>; N]) -> Tensor<1>,
) {
    let (expected, found) = (run(&ComputeDevice::cpu(), inputs, &op), run(device, inputs, &op));
    let bits = |tensors: &[Vec<f32>]| -> Vec<u32> { tensors.iter().flatten().map(|x| x.to_bits()).collect() };
    assert_eq!(bits(&found), bits(&run(device, inputs, &op)), "{}: two launches differ", device.label);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.len(), expected.len());
        let finite = expected.iter().filter(|x| x.is_finite());
        let size = finite.fold(terms.max(1e-30), |size: f32, x| size.max(x.abs()));
        for (place, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let alike = if expected.is_finite() {
                (found - expected).abs() <= tolerance * size
            } else {
                !found.is_finite()
            };
            assert!(alike, "{}: tensor {index}, element {place}: {found}, {expected}", device.label);
        }
    }
}

/// The numbers, and if they are few, the same with a row that has a NaN, an infinity or equal values.
fn rows(seed: u64, [rows, width]: [usize; 2]) -> Vec<Vec<f32>> {
    let plain = numbers(seed, rows * width);
    if plain.len() > 4000 {
        return vec![plain];
    }
    let special = |value: f32| {
        let mut values = plain.clone();
        values[(rows / 2) * width] = value;
        values
    };
    let mut equal = plain.clone();
    equal[..width].fill(0.25);
    vec![special(f32::NAN), special(f32::INFINITY), special(f32::NEG_INFINITY), equal, plain]
}

#[test]
fn devices_normalize_as_the_cpu_does() {
    for device in devices("devices_normalize_as_the_cpu_does") {
        for shape in SHAPES {
            let [count, width] = shape;
            // A row of one element is its mean: what is left of it is rounding.
            let how = (2e-5, if width == 1 { 1.0 } else { 0.0 });
            let (weight, bias) = (numbers(2, width), numbers(3, width));
            for x in rows(1, shape) {
                let wide = |x: Tensor<1>| x.reshape([1, count, width]);
                let flat = |y: Tensor<3>| y.reshape([count * width]);
                compare_sums(&device, &[x.clone(), weight.clone(), bias.clone()], how, |[x, w, b]| {
                    flat(norm::layer_norm(wide(x), w, Some(b), 1e-5))
                });
                let inputs = [x, weight.clone()];
                compare_sums(&device, &inputs, how, |[x, w]| flat(norm::layer_norm(wide(x), w, None, 1e-5)));
                compare_sums(&device, &inputs, how, |[x, w]| flat(rms_norm::rms_norm(wide(x), w, 1e-5)));
            }
        }
    }
}

#[test]
fn devices_have_the_cpus_cross_entropy() {
    for device in devices("devices_have_the_cpus_cross_entropy") {
        for shape in SHAPES {
            let [count, vocab] = shape;
            let targets: Vec<i32> = (0..count).map(|row| (row * 7919 % vocab) as i32).collect();
            for logits in rows(1, shape) {
                compare(&device, &[logits], 5e-6, |[x]| {
                    loss::cross_entropy(x.reshape([count, vocab]), targets[..].into(), TraceScope::OFF)
                });
            }
        }
    }
}

#[test]
fn devices_have_the_cpus_gelu() {
    for device in devices("devices_have_the_cpus_gelu") {
        for len in [1, 612, 30_001] {
            let x = numbers(1, len).into_iter().map(|x| 4.0 * x).chain([f32::NAN, 1e30, 0.0]).collect();
            // WGSL's error function is an approximation.
            compare(&device, &[x], 2e-6, |[x]| gelu::gelu(x));
        }
    }
}

/// Fewer elements than a block of random words, no multiple of it, and several cubes; micro-batches
/// whose numbers need more than 32 bits.
#[test]
fn devices_draw_the_cpus_dropout_masks() {
    for device in devices("devices_draw_the_cpus_dropout_masks") {
        for (len, micro_batch) in [(1, (0, 0)), (77, ((1 << 32) - 1, 3)), (300_000, (5 << 33, 1))] {
            let masks = |device: &ComputeDevice| {
                let dropout = Dropout::train(0.3, (7 << 40) + 11, micro_batch);
                let beside = flat(vec![1.0], &device.tensors);
                let read = |mask: Option<Tensor<1>>| read_f32(mask.unwrap()).unwrap();
                [(); 2].map(|()| read(dropout.mask([len].into(), &beside)))
            };
            assert_eq!(masks(&device), masks(&ComputeDevice::cpu()), "{len} of {micro_batch:?}");
        }
    }
}

/// Shapes of attention: of one position, of several tiles with a short last one, heads narrower and wider than a tile.
const ATTENTION: [(usize, usize, usize, usize); 7] = [
    (1, 1, 1, 1),
    (2, 8, 2, 3),
    (1, 64, 1, 32),
    (3, 75, 2, 16),
    (1, 33, 2, 64),
    (1, 20, 1, 100),
    (1, 70, 1, 128),
];

fn attend(
    qkv: Tensor<1>,
    mask: Option<&[f32]>,
    shape: AttentionShape,
    precision: PrecisionChoice,
    monitor: Option<&AttentionMonitor>,
) -> Tensor<1> {
    let AttentionShape { batch, block, heads, width } = shape;
    let mask = mask.map(|mask| flat(mask.to_vec(), &qkv.device()).reshape([batch, heads, block, block]));
    let quant = Quantizer::off();
    let quant = QuantPass::new(&quant);
    let casts = (precision, quant.values(0, 0));
    let monitor = monitor.map(|monitor| (monitor, 0));
    let qkv = qkv.reshape([batch, block, 3 * width]);
    attention::causal(qkv, mask, shape, casts, TraceScope::OFF, monitor).reshape([batch * block * width])
}

#[test]
fn devices_attend_as_the_cpu_does() {
    for device in devices("devices_attend_as_the_cpu_does") {
        for (batch, block, heads, head) in ATTENTION {
            let shape = AttentionShape { batch, block, heads, width: heads * head };
            let qkv = numbers(5, batch * block * 3 * shape.width);
            let mask: Vec<f32> = numbers(6, batch * heads * block * block);
            let mask: Vec<f32> = mask.iter().map(|x| if *x < -1.0 { 0.0 } else { 4.0 / 3.0 }).collect();
            for mask in [None, Some(&mask[..])] {
                compare(&device, std::array::from_ref(&qkv), 1e-5, |[qkv]| {
                    attend(qkv, mask, shape, PrecisionChoice::Fp32, None)
                });
                // Sums differ in their last bits, and now and then one of them then rounds to the next bf16 value.
                compare(&device, std::array::from_ref(&qkv), 5e-3, |[qkv]| {
                    attend(qkv, mask, shape, PrecisionChoice::Bf16, None)
                });
            }
            if block > 1 {
                let measured = |device: &ComputeDevice| {
                    let monitor = AttentionMonitor::default();
                    let qkv = flat(qkv.clone(), &device.tensors);
                    let _ = attend(qkv, None, shape, PrecisionChoice::Fp32, Some(&monitor));
                    let mut read_back = ReadBack::default();
                    let requested = monitor.request(&mut read_back);
                    let [(0, stats)] = requested.read(&read_back.read().unwrap()).unwrap()[..] else {
                        panic!()
                    };
                    [stats.entropy, stats.least_entropy, stats.largest_score]
                };
                for (found, expected) in measured(&device).into_iter().zip(measured(&ComputeDevice::cpu())) {
                    let off = (found - expected).abs();
                    assert!(off <= 1e-5 * expected.abs().max(1.0), "{}: {found}, {expected}", device.label);
                }
            }
        }
    }
}

/// A query that attends to a NaN or an infinity has one; those in earlier tiles do not. Tiles have up to 64 positions.
#[test]
fn attention_on_devices_hides_no_special_value() {
    let shape = AttentionShape { batch: 1, block: 80, heads: 1, width: 4 };
    for device in devices("attention_on_devices_hides_no_special_value") {
        // A value, then a key, in position 70.
        for (place, special) in [8, 4].into_iter().flat_map(|at| [f32::NAN, f32::INFINITY].map(|x| (at, x))) {
            let mut qkv = numbers(9, 80 * 12);
            qkv[70 * 12 + place] = special;
            let y = attend(flat(qkv, &device.tensors), None, shape, PrecisionChoice::Fp32, None);
            let y = read_f32(y).unwrap();
            assert!(y[..64 * 4].iter().all(|y| y.is_finite()), "{}", device.label);
            assert!(place == 4 || (70..80).all(|row| !y[row * 4].is_finite()), "{}: {special}", device.label);
            assert!(!special.is_nan() || y[70 * 4..].iter().any(|y| y.is_nan()), "{}", device.label);
        }
    }
}
