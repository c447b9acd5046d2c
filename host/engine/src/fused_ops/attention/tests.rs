//! Attention: results, gradients and measurements of the fused operation and of the chain of operations.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    fused_ops::testing::{compare, run},
    quant::{QuantPass, Quantizer},
    tensor::testing::numbers,
};

type Casts<'a> = (PrecisionChoice, ValueCasts<'a>);
type Monitor<'a> = Option<(&'a AttentionMonitor, usize)>;
type Op =
    fn(Tensor<3>, Option<Tensor<4>>, AttentionShape, Casts<'_>, TraceScope<'_>, Monitor<'_>) -> Tensor<3>;

/// `op` on one stacked tensor, with or without a mask.
fn of(
    op: Op,
    shape: AttentionShape,
    mask: Option<&[f32]>,
    precision: PrecisionChoice,
) -> impl Fn([Tensor<1>; 1]) -> Tensor<1> {
    move |[qkv]| {
        let dtype = qkv.dtype();
        let mask = mask.map(|mask| {
            let mask = TensorData::new(mask.to_vec(), [shape.batch, shape.heads, shape.block, shape.block]);
            Tensor::<4>::from_data(mask, &qkv.device()).cast(dtype)
        });
        let qkv = qkv.reshape([shape.batch, shape.block, 3 * shape.width]);
        let quant = Quantizer::off();
        let quant = QuantPass::new(&quant);
        let y = op(qkv, mask, shape, (precision, quant.values(0, 0)), TraceScope::OFF, None);
        y.reshape([shape.batch * shape.block * shape.width])
    }
}

/// Shapes in one block of queries and in several, the last one short; stacked tensors and masks for them.
fn cases() -> impl Iterator<Item = (AttentionShape, Vec<f32>, Vec<f32>)> {
    [(1, 1, 1, 1), (2, 8, 2, 3), (1, 64, 1, 32), (3, 150, 2, 16)].into_iter().map(
        |(batch, block, heads, head)| {
            let shape = AttentionShape { batch, block, heads, width: heads * head };
            let qkv = numbers(5, batch * block * 3 * shape.width).iter().map(|x| 3.0 * x).collect();
            let mask = numbers(6, batch * shape.score_elements());
            let mask = mask.iter().map(|x| if *x < -0.5 { 0.0 } else { 4.0 / 3.0 }).collect();
            (shape, qkv, mask)
        },
    )
}

#[test]
fn results_and_gradients_are_those_of_the_reference() {
    for (shape, qkv, mask) in cases() {
        for mask in [None, Some(&mask[..])] {
            let of = |op| of(op, shape, mask, PrecisionChoice::Fp32);
            compare(std::array::from_ref(&qkv), 2e-6, of(causal), of(reference));
        }
    }
}

/// The entropy of each head and the largest score, from the definition, in f64.
fn measured_by_definition(shape: AttentionShape, qkv: &[f32]) -> Vec<f64> {
    let AttentionShape { batch, block, heads, width } = shape;
    let head_width = width / heads;
    let mut largest = f64::NEG_INFINITY;
    let mut entropies = vec![0.0; heads];
    let part = |sequence: usize, position: usize, which: usize, head: usize| {
        let start = ((sequence * block + position) * 3 + which) * width + head * head_width;
        qkv[start..start + head_width].iter().map(|x| f64::from(*x))
    };
    for (head, entropy) in entropies.iter_mut().enumerate() {
        for (sequence, row) in (0..batch).flat_map(|sequence| (0..block).map(move |row| (sequence, row))) {
            let score = |key: usize| {
                let products =
                    part(sequence, row, 0, head).zip(part(sequence, key, 1, head)).map(|(q, k)| q * k);
                products.sum::<f64>() / (head_width as f64).sqrt()
            };
            let scores: Vec<f64> = (0..=row).map(score).collect();
            largest = scores.iter().copied().fold(largest, f64::max);
            let total: f64 = scores.iter().map(|score| score.exp()).sum();
            let shares = scores.iter().map(|score| score.exp() / total);
            let nats: f64 = shares.map(|share| -share * share.ln()).sum();
            if row > 0 {
                *entropy += nats / ((row + 1) as f64).ln() / (batch * (block - 1)) as f64;
            }
        }
    }
    entropies.into_iter().chain([largest]).collect()
}

#[test]
fn a_monitor_sees_the_entropy_of_each_head_and_the_largest_score() {
    let device = crate::device::ComputeDevice::cpu().tensors;
    for (shape, qkv, _) in cases() {
        let expected = measured_by_definition(shape, &qkv);
        let ops: [Op; 2] = [causal, reference];
        for op in ops {
            let monitor = AttentionMonitor::default();
            let stacked =
                tensor::flat(qkv.clone(), &device).reshape([shape.batch, shape.block, 3 * shape.width]);
            let quant = Quantizer::off();
            let quant = QuantPass::new(&quant);
            let casts = (PrecisionChoice::Fp32, quant.values(0, 0));
            let shown = Some((&monitor, 3)).filter(|_| shape.block > 1);
            let _ = op(stacked, None, shape, casts, TraceScope::OFF, shown);
            let mut read_back = crate::read_back::ReadBack::default();
            let requested = monitor.request(&mut read_back);
            let found = requested.read(&read_back.read().unwrap()).unwrap();
            if shape.block == 1 {
                assert!(found.is_empty());
                continue;
            }
            let entropies = &expected[..shape.heads];
            let stats = AttentionStats {
                entropy: entropies.iter().sum::<f64>() / shape.heads as f64,
                least_entropy: entropies.iter().copied().fold(f64::INFINITY, f64::min),
                largest_score: expected[shape.heads],
            };
            let [(3, found)] = found[..] else { panic!("{found:?}") };
            let close = |a: f64, b: f64| (a - b).abs() <= 3e-6 * b.abs().max(1.0);
            assert!(close(found.entropy, stats.entropy), "{found:?}, {stats:?}");
            assert!(close(found.least_entropy, stats.least_entropy), "{found:?}, {stats:?}");
            assert!(close(found.largest_score, stats.largest_score), "{found:?}, {stats:?}");
        }
    }
}

#[test]
fn the_largest_score_is_nan_if_a_softmax_is() {
    let device = crate::device::ComputeDevice::cpu().tensors;
    let shape = AttentionShape { batch: 2, block: 3, heads: 2, width: 4 };
    let finite = numbers(7, 2 * 3 * 12);
    // One query; a key that all queries of a sequence attend to; a score above f32's range; everything.
    let one =
        |at: usize, x: f32| finite.iter().enumerate().map(|(i, y)| if i == at { x } else { *y }).collect();
    let lost: [Vec<f32>; 4] =
        [one(24, f32::NAN), one(4, f32::NAN), one(0, f32::INFINITY), vec![f32::NAN; finite.len()]];
    let ops: [Op; 2] = [causal, reference];
    for (op, qkv) in ops.into_iter().flat_map(|op| lost.iter().map(move |qkv| (op, qkv))) {
        let monitor = AttentionMonitor::default();
        let stacked = tensor::flat(qkv.clone(), &device).reshape([2, 3, 12]);
        let quant = Quantizer::off();
        let quant = QuantPass::new(&quant);
        let casts = (PrecisionChoice::Fp32, quant.values(0, 0));
        let _ = op(stacked, None, shape, casts, TraceScope::OFF, Some((&monitor, 0)));
        let mut read_back = crate::read_back::ReadBack::default();
        let requested = monitor.request(&mut read_back);
        let [(0, found)] = requested.read(&read_back.read().unwrap()).unwrap()[..] else { panic!() };
        assert!(found.largest_score.is_nan(), "{found:?}");
    }
}

#[test]
fn a_mask_that_cannot_be_read_is_not_left_out() {
    let device = crate::device::ComputeDevice::cpu().tensors;
    let shape = AttentionShape { batch: 1, block: 2, heads: 1, width: 2 };
    let qkv = tensor::flat(numbers(8, 12), &device).reshape([1, 2, 6]);
    let mask = Tensor::<4>::ones([1, 1, 2, 2], &device).cast(burn::tensor::FloatDType::F64);
    let quant = Quantizer::off();
    let quant = QuantPass::new(&quant);
    let casts = (PrecisionChoice::Fp32, quant.values(0, 0));
    let y = causal(qkv, Some(mask), shape, casts, TraceScope::OFF, None);
    assert!(tensor::read_f32(y.reshape([4])).unwrap().iter().all(|y| y.is_nan()));
}

/// Sums differ in their last bits, and now and then one of them then rounds to the next bf16 value.
#[test]
fn results_and_gradients_in_bf16_are_those_of_the_reference_but_for_ties() {
    for (shape, qkv, mask) in cases() {
        for mask in [None, Some(&mask[..])] {
            let of = |op| run(std::array::from_ref(&qkv), false, of(op, shape, mask, PrecisionChoice::Bf16));
            for (found, expected) in of(causal).iter().zip(&of(reference)) {
                let size = expected.iter().fold(1e-30, |size: f64, x| size.max(x.abs()));
                let off = || found.iter().zip(expected).map(|(a, b)| (a - b).abs() / size);
                let (most, mean) = (off().fold(0.0, f64::max), off().sum::<f64>() / found.len() as f64);
                assert!(most < 2e-3 && mean < 2e-5, "{shape:?}: {most:e} at most, {mean:e} on average");
                let unrounded = run(
                    std::array::from_ref(&qkv),
                    false,
                    self::of(causal, shape, mask, PrecisionChoice::Fp32),
                );
                assert!(shape.block == 1 || unrounded[0] != *found);
            }
        }
    }
}
