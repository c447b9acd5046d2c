//! Tensors that are tried where the scales of a block depend on more than its largest magnitude, and where an argument
//! fails.

use super::{Property, Witness, subject::Subject};
use crate::{Block, CastError, Rule, Shape};

/// How many tensors were tried.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) count: usize,
}

impl Tried {
    /// The first tensor that lacks a property, of the fewest elements first.
    pub(super) fn search(
        &mut self,
        subject: &Subject<'_>,
        property: Property,
    ) -> Result<Option<Witness>, CastError> {
        let tensors = tensors(subject);
        self.count = tensors.len();
        subject.first(property, tensors)
    }
}

/// A tensor whose transform exceeds f32.
pub(super) fn of_transform(subject: &Subject<'_>, property: Property) -> Result<Option<Witness>, CastError> {
    let Some(transform) = subject.whole.transform.filter(|_| property == Property::Finite) else {
        return Ok(None);
    };
    let shape = Shape { rows: 1, columns: transform.size };
    for values in [
        vec![f32::MAX; transform.size],
        (0..transform.size).map(|i| if i % 3 == 0 { f32::MIN } else { f32::MAX }).collect(),
    ] {
        let witness = Witness { values, shape, seed: 0, transformed: true };
        if subject.violates(property, &witness)? {
            return Ok(Some(witness));
        }
    }
    Ok(None)
}

/// Magnitudes at both ends of f32 and between.
const MAGNITUDES: [f32; 16] = [
    1.0,
    1.875,
    1.1,
    1.3,
    1e30,
    1e-30,
    1e-12,
    1e20,
    3e38,
    f32::MAX,
    1.9375 * 1.701_411_8e38,
    1.4e-38,
    f32::MIN_POSITIVE,
    1e-40,
    1e-42,
    1e-45,
];

/// Tensors as lists of blocks, small ones first.
fn tensors(subject: &Subject<'_>) -> Vec<Vec<Vec<f32>>> {
    let mut tensors: Vec<Vec<Vec<f32>>> = Vec::new();
    let one = |block: Vec<f32>| vec![block];
    for x in MAGNITUDES {
        tensors.push(one(vec![x]));
    }
    // Largest magnitudes beside others, within a block and in two.
    let ratios = || (0..160).map(|step| 0.97f32 * 2f32.powf(-(step as f32) / 8.0));
    for x in MAGNITUDES {
        tensors.extend(ratios().map(|ratio| one(vec![x, x * ratio])));
        tensors.extend([1e-7, 1e-12, 1e-20, 1e-30].map(|ratio| one(vec![x, x * ratio])));
        tensors.push(one(vec![x, x]));
        tensors.extend((-40..=-8).map(|bits| one(vec![x, x * 2f32.powi(bits)])));
    }
    if !matches!(subject.cast.block, Block::None | Block::Tensor) {
        for x in MAGNITUDES {
            tensors.extend(ratios().map(|ratio| vec![vec![x], vec![x * ratio]]));
            tensors.extend([1e-7, 1e-12, 1e-20, 1e-30, 1e-38].map(|ratio| vec![vec![x], vec![x * ratio]]));
        }
        tensors.push(vec![vec![1.0, 0.3], vec![1.0, 0.3]]);
        tensors.push(vec![vec![1.0, 0.3, 0.21, 0.07], vec![1.0, 0.3, 0.21, 0.07]]);
    }
    if matches!(subject.cast.scaling.rule, Rule::Rms { .. }) {
        for length in [4, 16, 32] {
            let outlier = (0..length).map(|index| if index == 0 { 1.0 } else { 0.0 });
            tensors.push(one(outlier.collect()));
        }
    }
    // An irregular sequence for what only some blocks show.
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 2f32.powi(24)
    };
    for _ in 0..200 {
        tensors.push(one(vec![1.0 + next(), next(), next()]));
    }
    tensors.retain(|blocks| blocks.iter().flatten().all(|x| x.is_finite()));
    tensors.sort_by_key(|blocks| blocks.iter().map(Vec::len).sum::<usize>());
    tensors
}
