//! Sums over tensors that metrics are made of: one pass on the CPU, one kernel on a GPU, a few numbers to read.

use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
#[cfg(feature = "gpu")]
use burn::tensor::Shape;
use burn::tensor::Tensor;
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use crate::tensor::batch::TensorBatchMetadata;
use crate::tensor::{
    batch::{TensorBatch, batch},
    cpu::{elements, flat},
};

/// Gradients smaller than this are dead (docs/numerics.md, section 7.2).
pub(super) const DEAD_BELOW: f32 = 1e-8;
/// Elements per task. The number is fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// Numbers of a slot: four of a part of the elements, and the weight of the part. The CPU returns one slot with means
/// and weight 1, a GPU one per cube with sums and the number of elements.
pub const SLOT: usize = 5;

/// The operations, for burn's backends.
#[backend_extension(Cube: cfg(feature = "gpu"), Flex, Fusion: cfg(feature = "gpu"))]
pub trait MetricOps: Backend {
    /// Slots of each tensor, one tensor after the other: value, square, number of dead ones, and, not summed, the
    /// largest magnitude.
    #[fusion(meta = moments_spec)]
    fn moments(#[extension_type] tensors: TensorBatch<Self>) -> FloatTensor<Self>;

    /// Slots of two tensors `[n]`: product, both squares, and number of equal signs.
    #[fusion(meta = agreement_spec)]
    fn agreement(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
}

#[cfg(feature = "gpu")]
use burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "gpu")]
fn spec(slots: usize) -> TensorSpec {
    TensorSpec::new(Shape::from([slots * SLOT]), burn::tensor::DType::F32)
}

#[cfg(feature = "gpu")]
fn moments_spec(tensors: &TensorBatchMetadata) -> TensorSpec {
    spec(tensors.lens().map(crate::kernel_text::cubes).sum())
}

#[cfg(feature = "gpu")]
fn agreement_spec(a: &TensorSpec, _: &TensorSpec) -> TensorSpec {
    spec(crate::kernel_text::cubes(a.shape.num_elements()))
}

/// The number of slots of a tensor.
pub(super) fn slots(x: &Tensor<1>) -> usize {
    #[cfg(feature = "gpu")]
    if !crate::fused_ops::is_available(&x.device()) {
        return crate::kernel_text::cubes(x.shape().num_elements());
    }
    let _ = x;
    1
}

/// The means of the four numbers over all slots, added in f64.
#[must_use]
pub fn means(slots: &[[f32; SLOT]]) -> [f64; 4] {
    let add = |sums: [f64; SLOT], slot: &[f32; SLOT]| std::array::from_fn(|i| sums[i] + f64::from(slot[i]));
    let [sums @ .., weight] = slots.iter().fold([0.0; SLOT], add);
    sums.map(|sum| sum / weight)
}

/// The largest magnitude of the slots of [`MetricOps::moments`]; NaN if one is.
#[must_use]
pub fn largest(slots: &[[f32; SLOT]]) -> f64 {
    slots.iter().fold(0.0, |top, &[.., largest, _]| larger(top, largest.into()))
}

impl MetricOps for Flex {
    fn moments(tensors: TensorBatch<Self>) -> FloatTensor<Self> {
        let slots = tensors.into_tensors().into_iter().flat_map(|x| {
            let x = x.to_contiguous();
            let x = elements(&x);
            let parts: Vec<[f64; 4]> = x.par_chunks(PART).map(sums_of_part).collect();
            let add = |a: [f64; 4], b: &[f64; 4]| [a[0] + b[0], a[1] + b[1], a[2] + b[2], larger(a[3], b[3])];
            let [sum, squares, dead, largest] = parts.iter().fold([0.0; 4], add);
            slot([sum, squares, dead], x.len(), [largest])
        });
        flat(slots.collect())
    }

    fn agreement(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let (a, b) = (elements(&a), elements(&b));
        let sums = |(a, b): (&[f32], &[f32])| {
            a.iter().zip(b).fold([0.0; 4], |[ab, aa, bb, equal]: [f64; 4], (&a, &b)| {
                // Zeros of both signs are one sign.
                let same = (a > 0.0) == (b > 0.0) && (a < 0.0) == (b < 0.0);
                let (a, b) = (f64::from(a), f64::from(b));
                [ab + a * b, aa + a * a, bb + b * b, equal + f64::from(u8::from(same))]
            })
        };
        let parts: Vec<[f64; 4]> = a.par_chunks(PART).zip(b.par_chunks(PART)).map(sums).collect();
        let totals = parts.iter().fold([0.0; 4], |a, b| std::array::from_fn(|i| a[i] + b[i]));
        flat(slot(totals, a.len(), []))
    }
}

/// Partial sums: element i goes to sum `i % LANES`, and they are added in order.
const LANES: usize = 16;

/// Sums over a part: value, square, number of dead ones; and the largest magnitude, NaN if one is.
#[multiversion::multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
fn sums_of_part(part: &[f32]) -> [f64; 4] {
    let (mut sums, mut squares) = ([0f64; LANES], [0f64; LANES]);
    let (mut dead, mut nans, mut largest) = ([0u32; LANES], [0u32; LANES], [0f32; LANES]);
    let mut add = |lane: usize, x: f32| {
        let (wide, magnitude) = (f64::from(x), x.abs());
        sums[lane] += wide;
        squares[lane] += wide * wide;
        dead[lane] += u32::from(magnitude < DEAD_BELOW);
        nans[lane] += u32::from(x.is_nan());
        largest[lane] = if magnitude > largest[lane] { magnitude } else { largest[lane] };
    };
    let (groups, rest) = part.as_chunks::<LANES>();
    for group in groups {
        for (lane, &x) in group.iter().enumerate() {
            add(lane, x);
        }
    }
    rest.iter().enumerate().for_each(|(lane, &x)| add(lane, x));
    let count = |lanes: [u32; LANES]| f64::from(lanes.iter().sum::<u32>());
    let top =
        if count(nans) > 0.0 { f64::NAN } else { largest.iter().fold(0.0, |a, &b| larger(a, b.into())) };
    [sums.iter().sum(), squares.iter().sum(), count(dead), top]
}

/// The larger number; NaN if either is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

/// One slot: the means of some sums, and more numbers.
fn slot<const N: usize, const M: usize>(sums: [f64; N], len: usize, more: [f64; M]) -> Vec<f32> {
    let means = sums.map(|sum| sum / len as f64).into_iter();
    means.chain(more).chain([1.0]).map(|value| value as f32).collect()
}

/// [`MetricOps::moments`] of at most [`MOST`](crate::tensor::batch::MOST) tensors.
#[must_use]
pub fn moments(tensors: &[Tensor<1>]) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as MetricOps>::moments(batch(tensors.iter().cloned())))
}

/// [`MetricOps::agreement`] of two tensors.
#[must_use]
pub fn agreement(a: &Tensor<1>, b: &Tensor<1>) -> Tensor<1> {
    let (a, b) = (a.clone().into_dispatch(), b.clone().into_dispatch());
    Tensor::from_dispatch(<Dispatch as MetricOps>::agreement(a, b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{super::testing::flat, *};
    use crate::tensor;

    #[test]
    fn moments_by_hand() {
        let found = tensor::read_f32(moments(&[flat(&[3.0, -4.0, 0.0, 1e-9]), flat(&[2.0])])).unwrap();
        assert_eq!(found, [-0.25, 6.25, 0.5, 4.0, 1.0, 2.0, 4.0, 0.0, 2.0, 1.0]);
        assert!(tensor::read_f32(moments(&[flat(&[1.0, f32::NAN])])).unwrap()[3].is_nan());
    }

    #[test]
    fn agreement_by_hand() {
        let found = tensor::read_f32(agreement(&flat(&[1.0, -2.0, 0.0, 3.0]), &flat(&[2.0, 2.0, -0.0, 0.0])));
        // Signs agree in the first and the third place.
        assert_eq!(found.unwrap(), [-0.5, 3.5, 2.0, 0.5, 1.0]);
    }

    #[test]
    fn slots_are_weighted() {
        let slots = [[3.0, 25.0, 1.0, 4.0, 3.0], [-4.0, 1.0, 0.0, 7.0, 1.0]];
        assert_eq!(means(&slots), [-0.25, 6.5, 0.25, 2.75]);
        assert_eq!(largest(&slots), 7.0);
        assert!(largest(&[[0.0, 0.0, 0.0, f32::NAN, 1.0], slots[0]]).is_nan());
    }
}
