//! Rotary positions (arXiv:2104.09864): rotates queries and keys by angles that grow with the position.
//!
//! Elements i and i + d/2 of a head of width d are a pair. Position p turns it by `p * 10000^(-2i/d)` radians. Values
//! stay as they are. The backward pass turns gradients back.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use super::{
    attention::AttentionShape,
    function::{CpuFunction, SavedTensors, apply, is_available},
    loops,
};
use crate::tensor::cpu::into_unique;

/// The base of the angles' frequencies, which fall from pair to pair.
const BASE: f64 = 10_000.0;

/// Rotates queries and keys. Shapes: `qkv` and the result `[batch, block, 3 width]`. Heads have an even width.
#[must_use]
pub fn rotary(qkv: Tensor<3>, shape: AttentionShape) -> Tensor<3> {
    if is_available(&qkv.device()) {
        let angles = Angles::new(shape);
        apply(qkv, [None, None], Rotary { shape, angles })
    } else {
        reference(qkv, shape)
    }
}

/// The same as a chain of tensor operations.
fn reference(qkv: Tensor<3>, shape: AttentionShape) -> Tensor<3> {
    let AttentionShape { batch, block, heads, width } = shape;
    let (head, half) = (shape.head_width(), shape.head_width() / 2);
    let angles = Angles::new(shape);
    let table = |values: Vec<f32>, device: &Device| {
        Tensor::<4>::from_data(TensorData::new(values, [1, block, 1, half]), device)
    };
    let device = qkv.device();
    let (cos, sin) =
        (table(angles.cos, &device).cast(qkv.dtype()), table(angles.sin, &device).cast(qkv.dtype()));
    let turned = |index: usize| {
        let part = qkv.clone().narrow(2, index * width, width).reshape([batch, block, heads, head]);
        let (a, b) = (part.clone().narrow(3, 0, half), part.narrow(3, half, half));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        Tensor::cat(vec![first, b * cos.clone() + a * sin.clone()], 3).reshape([batch, block, width])
    };
    Tensor::cat(vec![turned(0), turned(1), qkv.clone().narrow(2, 2 * width, width)], 2)
}

/// Cosines and sines, `[block, head width / 2]`.
#[derive(Debug)]
struct Angles {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Angles {
    fn new(shape: AttentionShape) -> Self {
        let half = shape.head_width() / 2;
        let (sin, cos) = (0..shape.block * half)
            .map(|at| {
                let (position, pair) = (at / half, at % half);
                let angle = position as f64 * BASE.powf(-(pair as f64) / half as f64);
                (angle.sin() as f32, angle.cos() as f32)
            })
            .unzip();
        Self { cos, sin }
    }
}

#[derive(Debug)]
struct Rotary {
    shape: AttentionShape,
    angles: Angles,
}

impl Rotary {
    /// Turns queries and keys by their angles times `direction`, 1 or -1.
    fn turn(&self, x: FlexTensor, direction: f32) -> FlexTensor {
        let AttentionShape { block, width, .. } = self.shape;
        let half = self.shape.head_width() / 2;
        let sin: Vec<f32> = self.angles.sin.iter().map(|sin| sin * direction).collect();
        let mut x = into_unique(x);
        x.storage_mut::<f32>().par_chunks_mut(3 * width * block).for_each(|sequence| {
            for (position, row) in sequence.chunks_exact_mut(3 * width).enumerate() {
                let at = position * half..(position + 1) * half;
                loops::rotate(&mut row[..2 * width], &self.angles.cos[at.clone()], &sin[at]);
            }
        });
        x
    }
}

impl CpuFunction for Rotary {
    fn forward(&self, [x, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, SavedTensors) {
        (self.turn(x, 1.0), Vec::new())
    }

    fn backward(&self, _: SavedTensors, grad: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [Some(self.turn(grad, -1.0)), None, None]
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
        for [batch, block, heads, width] in [[1, 1, 1, 2], [2, 5, 3, 12], [3, 64, 4, 128]] {
            let (shape, len) = (AttentionShape { batch, block, heads, width }, batch * block * 3 * width);
            let of = |op: fn(Tensor<3>, AttentionShape) -> Tensor<3>| {
                move |[x]: [Tensor<1>; 1]| op(x.reshape([batch, block, 3 * width]), shape).reshape([len])
            };
            compare(&[numbers(1, len)], 3e-7, of(rotary), of(reference));
        }
    }

    /// A head of width 4: pairs (0, 2) with 1 radian a position and (1, 3) with 10000^(-1/2) = 0.01.
    #[test]
    fn pairs_turn_by_the_angles_of_the_paper() {
        let shape = AttentionShape { batch: 1, block: 4, heads: 1, width: 4 };
        let row = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 6.0, 7.0, 8.0];
        let x = flat([row; 4].concat(), &ComputeDevice::cpu().tensors).reshape([1, 4, 12]);
        let y = read_f32(rotary(x, shape).reshape([48])).unwrap();
        for (position, y) in y.chunks(12).enumerate() {
            let (fast, slow) = (position as f64, 0.01 * position as f64);
            let expected = [fast.cos(), slow.cos(), fast.sin(), slow.sin()];
            let key = [-fast.sin(), -slow.sin(), fast.cos(), slow.cos()];
            for (y, expected) in y.iter().zip(expected.iter().chain(&key)) {
                assert!(
                    (f64::from(*y) - expected).abs() < 1e-7,
                    "position {position}: {y}, expected {expected}"
                );
            }
            assert_eq!(y[8..], row[8..], "values do not turn");
        }
    }
}
