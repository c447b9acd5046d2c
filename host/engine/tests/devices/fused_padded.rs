//! Fused functions on buffers that are longer than their tensors, as CUDA allocates them: the bits are those of exact
//! buffers, and of a second launch. Software Vulkan pads nothing, so that the test makes the buffers. A device that
//! does not answer is reported as skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use altgrad_end_to_end::Random;
use altgrad_engine::{
    fused_ops::{
        attention::{AttentionShape, DeviceAttention, Summary},
        device::{DeviceFunction, DeviceOps},
        gelu::Gelu,
        loss::CrossEntropy,
        norm::LayerNorm,
        rms_norm::RmsNorm,
    },
    kernel_text::{download, upload},
};
use burn::backend::{DispatchDevice, TensorMetadata as _};
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::zspace::metadata::Metadata;

use super::devices;

/// Rows and columns; none is a multiple of anything.
const ROWS: usize = 5;
const COLUMNS: usize = 37;

fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    (0..len).map(|_| 2.0 * random.unit() as f32 - 1.0).collect()
}

/// A tensor of random numbers whose buffer ends with `tail`.
fn padded(device: &CubeDevice, seed: u64, shape: &Shape, tail: &[f32]) -> CubeTensor {
    padded_with(device, &numbers(seed, shape.num_elements()), shape, tail)
}

/// The same of these values.
fn padded_with(device: &CubeDevice, values: &[f32], shape: &Shape, tail: &[f32]) -> CubeTensor {
    let values = [values, tail].concat();
    let buffer = upload::<CubeBackend>(device, [values.len()].into(), values);
    let rank = shape.num_dims();
    let strides: Vec<usize> = (0..rank).map(|axis| shape[axis + 1..].iter().product()).collect();
    let extents: Vec<usize> = (0..rank).map(|axis| shape[axis]).collect();
    CubeTensor { meta: Box::new(Metadata::new(extents, strides)), ..buffer }
}

/// The bits of results, and of the first gradients, which are `written`.
fn bits(
    device: &CubeDevice,
    function: &Arc<dyn DeviceFunction>,
    (shapes, written): &([Shape; 3], usize),
    tail: &[f32],
) -> Vec<Vec<u32>> {
    let [a, b, c] = [0, 1, 2].map(|i| padded(device, i as u64 + 1, &shapes[i], tail));
    let b = if shapes[1] == targets_shape() { targets(device, tail) } else { b };
    let (y, saved) = CubeBackend::device_forward(a.clone(), b.clone(), c.clone(), function.clone(), true);
    let grad = padded(device, 4, &y.shape(), tail);
    // A tensor of one element is not written.
    let kept = (saved.shape().num_elements() > 1).then(|| saved.clone());
    let (a, b, c) = CubeBackend::device_backward(a, b, c, saved, grad, function.clone());
    let grads = [a, b, c].into_iter().take(*written);
    let read = |x| download::<CubeBackend>(x).unwrap().into_iter().map(f32::to_bits).collect();
    [y].into_iter().chain(kept).chain(grads).map(read).collect()
}

/// The target of each row of logits.
fn target_ids() -> Vec<usize> {
    (0..ROWS).map(|row| row * 7).collect()
}

/// Of no other input.
fn targets_shape() -> Shape {
    Shape::from([ROWS])
}

/// The bits of the targets.
fn targets(device: &CubeDevice, tail: &[f32]) -> CubeTensor {
    let bits: Vec<f32> = target_ids().into_iter().map(|id| f32::from_bits(id as u32)).collect();
    padded_with(device, &bits, &targets_shape(), tail)
}

#[test]
fn padding_has_no_influence() {
    for device in devices("padding_has_no_influence") {
        let DispatchDevice::Cube(device) = device.tensors.as_dispatch() else {
            panic!("{} is a GPU", device.label)
        };
        compare(device);
    }
}

/// A product of matrices has padded rows on CUDA; the loss reads them where they are.
#[test]
fn padding_of_the_rows_of_logits_has_no_influence() {
    for device in devices("padding_of_the_rows_of_logits_has_no_influence") {
        let DispatchDevice::Cube(device) = device.tensors.as_dispatch() else {
            panic!("{} is a GPU", device.label)
        };
        let function: Arc<dyn DeviceFunction> =
            Arc::new(CrossEntropy { targets: target_ids(), shape: [ROWS, COLUMNS] });
        let bits = |tail: &[f32]| {
            let (logits, pitch) = (numbers(1, ROWS * COLUMNS), COLUMNS + tail.len());
            let values: Vec<f32> = logits.chunks(COLUMNS).flat_map(|row| [row, tail].concat()).collect();
            let buffer = upload::<CubeBackend>(device, [values.len()].into(), values);
            let meta = Box::new(Metadata::new([ROWS, COLUMNS], [pitch, 1]));
            let logits = CubeTensor { meta, ..buffer };
            let rest = || [targets(device, &[]), padded(device, 2, &Shape::from([1]), &[])];
            let [ids, unused] = rest();
            let (y, saved) = CubeBackend::device_forward(logits.clone(), ids, unused, function.clone(), true);
            let grad = padded(device, 3, &y.shape(), &[]);
            let [ids, unused] = rest();
            let (written, ..) =
                CubeBackend::device_backward(logits, ids, unused, saved, grad, function.clone());
            let read = |x| download::<CubeBackend>(x).unwrap().into_iter().map(f32::to_bits);
            [y, written].into_iter().flat_map(read).collect::<Vec<u32>>()
        };
        let expected = bits(&[]);
        for tail in [f32::NAN, 1e30] {
            assert_eq!(bits(&[tail; 27]), expected, "rows that end with {tail}");
        }
    }
}

/// A function, the shapes of its inputs, and the one of them that its outputs are written beside: see [`bits`].
type Case = (Arc<dyn DeviceFunction>, ([Shape; 3], usize));

fn compare(device: &CubeDevice) {
    let (matrix, row) = (Shape::from([ROWS, COLUMNS]), Shape::from([COLUMNS]));
    let rows = |written| ([matrix.clone(), row.clone(), row.clone()], written);
    let shape = AttentionShape { batch: 2, block: 19, heads: 3, width: 15 };
    let [batch, block] = [shape.batch, shape.block];
    let attention = |has_mask| -> Case {
        let mask = Shape::from([batch * shape.heads * block * block]);
        let qkv = Shape::from([batch, block, 3 * shape.width]);
        (Arc::new(DeviceAttention { shape, has_mask, to_bf16: has_mask }), ([qkv, mask, row.clone()], 1))
    };
    let stats = Shape::from([batch * shape.heads * block * 3]);
    let cases: [Case; 8] = [
        (Arc::new(LayerNorm { epsilon: 1e-5, bias: true }), rows(3)),
        (Arc::new(LayerNorm { epsilon: 1e-5, bias: false }), rows(2)),
        (Arc::new(RmsNorm { epsilon: 1e-5 }), rows(2)),
        (Arc::new(Gelu), rows(1)),
        (
            Arc::new(CrossEntropy { targets: target_ids(), shape: [ROWS, COLUMNS] }),
            ([matrix.clone(), targets_shape(), row.clone()], 1),
        ),
        attention(false),
        attention(true),
        (Arc::new(Summary(shape)), ([stats, row.clone(), row.clone()], 0)),
    ];
    for (function, shapes) in cases {
        let expected = bits(device, &function, &shapes, &[]);
        for tail in [&[][..], &[f32::NAN; 100], &[1e30; 100]] {
            assert_eq!(bits(device, &function, &shapes, tail), expected, "{function:?}, then {tail:?}");
        }
    }
}
