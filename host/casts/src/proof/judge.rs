//! The cast of a tensor, and whether it lacks a property.

use altgrad_plugin_api::{RandomKey, Rounding as Mode};

use super::{Property, subject::Subject};
use crate::{Applied, Axis, Block, Cast, CastError, Grid, Operation, Prepared, Shape};

/// A tensor whose cast lacks a property, and the seed of its random words. Blocks run along rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// The elements, row-major.
    pub values: Vec<f32>,
    /// Rows and columns.
    pub shape: Shape,
    /// The seed of stochastic rounding.
    pub seed: u64,
    /// True if the cast has its transform; otherwise it is without.
    pub transformed: bool,
}

/// The cast of matrices by a format, which rounds in the modes of plugins.
pub(super) struct Caster<'a, F> {
    pub(super) cast: &'a Cast,
    pub(super) grid: &'a Grid,
    pub(super) encode: F,
}

impl<E: From<CastError>, F: Fn(&[f32], Mode, &RandomKey) -> Result<Vec<u16>, E>> Caster<'_, F> {
    fn prepared(&self, values: &[f32], shape: Shape, key: &RandomKey) -> Result<Prepared, E> {
        Ok(self.cast.prepare(self.grid, values, shape, Axis::Rows, key)?)
    }

    fn finished(&self, prepared: Prepared, key: &RandomKey) -> Result<Applied, E> {
        let encode = |scaled: &[f32], mode: Mode| (self.encode)(scaled, mode, key);
        let codes = self.cast.codes(self.grid, prepared.scaled(), key, encode)?;
        Ok(prepared.finish(self.grid, codes)?)
    }

    fn applied(&self, values: &[f32], shape: Shape, key: &RandomKey) -> Result<Applied, E> {
        self.finished(self.prepared(values, shape, key)?, key)
    }

    /// The values on a device that flushes subnormals to zero. Scales are computed in integers there.
    fn flushed(&self, values: &[f32], shape: Shape, key: &RandomKey) -> Result<Vec<f32>, E> {
        let elements: Vec<f32> = values.iter().map(|x| flush(*x)).collect();
        let mut prepared = self.prepared(values, shape, key)?;
        let scales = prepared.scales_of_elements();
        let quantize = self.cast.scaling.quantize;
        for ((x, [encode, decode]), scaled) in elements.iter().zip(&scales).zip(prepared.scaled_mut()) {
            *scaled = flush(quantize.quantize(*x, [flush(*encode), flush(*decode)]));
        }
        let encode = |scaled: &[f32], mode: Mode| (self.encode)(scaled, mode, key);
        let codes = self.cast.codes(self.grid, prepared.scaled(), key, encode)?;
        let dequantize = self.cast.scaling.dequantize;
        let value = |((code, x), [encode, decode]): ((&u16, &f32), &[f32; 2])| {
            let point = self.grid.decode(*code);
            let point = if point == 0.0 { point.copysign(*x) } else { flush(point) };
            flush(dequantize.dequantize(point, [flush(*encode), flush(*decode)]))
        };
        Ok(codes.iter().zip(prepared.scaled()).zip(&scales).map(value).collect())
    }

    fn violates(&self, property: Property, witness: &Witness, subject: &Subject<'_>) -> Result<bool, E> {
        let Witness { values, shape, seed, .. } = witness;
        let key = RandomKey { seed: *seed, ..RandomKey::default() };
        let prepared = self.prepared(values, *shape, &key)?;
        let scales = prepared.scales_of_elements();
        let scaled = prepared.scaled().to_vec();
        let blocks = prepared.blocks();
        let applied = self.finished(prepared, &key)?;
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let has = |range: &[usize], of: &[f32]| range.iter().any(|index| of[*index] != 0.0);
        Ok(match property {
            Property::NeverClips => applied.overflow > 0,
            Property::NeverZeroes => {
                blocks.iter().any(|block| has(block, values) && !has(block, &applied.values))
            }
            Property::Idempotent => {
                let again = self.applied(&applied.values, *shape, &key)?;
                bits(&again.values) != bits(&applied.values)
            }
            Property::Monotone => {
                !subject.is_random()
                    && blocks.iter().any(|block| {
                        let mut block = block.clone();
                        block.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
                        block.windows(2).any(|pair| applied.values[pair[0]] > applied.values[pair[1]])
                    })
            }
            Property::Unbiased => {
                let is_biased = |((x, scaled), [encode, decode]): ((&f32, &f32), &[f32; 2])| {
                    let (x, encode, decode) = (f64::from(*x), f64::from(*encode), f64::from(*decode));
                    let restored = |point: f64| match self.cast.scaling.dequantize {
                        Operation::Multiply | Operation::Nested => point * decode,
                        Operation::Divide => point / encode,
                    };
                    let step = restored(self.grid.values().spacing(f64::from(*scaled))).abs();
                    let mean = restored(subject.mean(*scaled));
                    (mean - x).abs() > x.abs() * 2f64.powi(-20) + step * 2f64.powi(-31)
                };
                values.iter().zip(&scaled).zip(&scales).any(is_biased)
            }
            Property::Finite => applied.values.iter().any(|value| !value.is_finite()),
            Property::NormalScales => blocks
                .iter()
                .any(|block| has(block, values) && scales[block[0]].iter().any(|scale| !scale.is_normal())),
            Property::OrderOfBlocks => {
                let reversed = |values: &[f32]| -> Vec<f32> {
                    values.chunks(shape.columns).rev().flatten().copied().collect()
                };
                let other = self.applied(&reversed(values), *shape, &key)?;
                bits(&other.values) != bits(&reversed(&applied.values))
            }
            Property::FlushSafe => bits(&self.flushed(values, *shape, &key)?) != bits(&applied.values),
        })
    }
}

/// A number that is subnormal counts as zero.
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// True if the cast of a tensor lacks the property, with the elements rounded by `encode`: a format in the modes of
/// plugins.
///
/// # Errors
/// Those of `encode`, and a cast that is refused.
pub fn violates<E: From<CastError>>(
    cast: &Cast,
    grid: &Grid,
    property: Property,
    witness: &Witness,
    encode: impl Fn(&[f32], Mode, &RandomKey) -> Result<Vec<u16>, E>,
) -> Result<bool, E> {
    let subject = Subject::new(cast, grid)?;
    let cast = if witness.transformed { cast } else { &subject.cast };
    Caster { cast, grid, encode }.violates(property, witness, &subject)
}

impl Subject<'_> {
    /// [`violates`] with the format's values and no plugin.
    pub(super) fn violates(&self, property: Property, witness: &Witness) -> Result<bool, CastError> {
        let cast = if witness.transformed { self.whole } else { &self.cast };
        let encode = |scaled: &[f32], rounding: Mode, key: &RandomKey| -> Result<Vec<u16>, CastError> {
            let mut codes = vec![0; scaled.len()];
            let params = altgrad_plugin_api::QuantParams {
                rounding,
                key: *key,
                ..altgrad_plugin_api::QuantParams::IDENTITY
            };
            self.rounder
                .encode(scaled, &mut codes, &params)
                .map_err(|error| super::subject::refused(&error))?;
            Ok(codes)
        };
        Caster { cast, grid: self.grid, encode }.violates(property, witness, self)
    }

    /// The first of some tensors, given as blocks, that lacks a property, with the first seed that shows it.
    pub(super) fn first(
        &self,
        property: Property,
        tensors: impl IntoIterator<Item = Vec<Vec<f32>>>,
    ) -> Result<Option<Witness>, CastError> {
        let is_by_seed = self.is_random()
            && matches!(
                property,
                Property::NeverZeroes | Property::Idempotent | Property::OrderOfBlocks | Property::FlushSafe
            );
        let seeds = if is_by_seed { 32 } else { 1 };
        for blocks in tensors {
            let Some((values, shape)) = self.placed(&blocks) else { continue };
            for seed in 0..seeds {
                let witness = Witness { values: values.clone(), shape, seed, transformed: false };
                if self.violates(property, &witness)? {
                    return Ok(Some(witness));
                }
            }
        }
        Ok(None)
    }

    /// A matrix with these blocks one below the other, filled up with zeros; `None` if the cast has no such blocks.
    fn placed(&self, blocks: &[Vec<f32>]) -> Option<(Vec<f32>, Shape)> {
        let columns = blocks.iter().map(Vec::len).max()?;
        let (high, wide) = match self.cast.block {
            Block::None | Block::Tensor if blocks.len() > 1 => return None,
            Block::None | Block::Tensor | Block::Row => (1, usize::MAX),
            Block::Along(wide) => (1, wide),
            Block::Tile([high, wide]) => (high, wide),
        };
        if columns > wide {
            return None;
        }
        let rows = (blocks.len() - 1) * high + 1;
        let mut values = vec![0.0; rows * columns];
        for (index, block) in blocks.iter().enumerate() {
            values[index * high * columns..][..block.len()].copy_from_slice(block);
        }
        Some((values, Shape { rows, columns }))
    }
}
