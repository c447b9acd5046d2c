//! A cast, and a matrix on its way through one.

use altgrad_plugin_api::{RandomKey, Rounding as Mode, random::Words};

use crate::{
    Axis, Block, BlockGrid, CastError, Grid, Hadamard, Operation, Rounding, Rule, Scaling, Shape,
    overflow::{exceeds, overflow_codes},
    scale_rule::BlockStatistics,
    scaling::BlockScale,
};

/// The cast of a matrix to codes and scales, except for the format.
///
/// The default scales the tensor's largest magnitude to the format's target by one f32 scale and rounds to nearest,
/// ties to even.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cast {
    /// The rounding of scaled elements.
    pub rounding: Rounding,
    /// The elements that share a scale.
    pub block: Block,
    /// The rule that derives scales from blocks. With [`Block::None`] the default, which is not used.
    pub scaling: Scaling,
    /// A rotation before all else: results are those of the rotated matrix, and are not rotated back.
    pub transform: Option<Hadamard>,
    /// The result of elements beyond the format's largest value.
    pub overflow: Overflow,
}

/// The result of elements that are beyond the format's largest value when they are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The largest value, also of infinities.
    #[default]
    Saturate,
    /// Infinity, or NaN in formats without infinities: conversions of OFP8 without saturation.
    NonFinite,
}

impl Default for Cast {
    fn default() -> Self {
        Self {
            rounding: Rounding::NearestEven,
            block: Block::Tensor,
            scaling: Scaling::default(),
            transform: None,
            overflow: Overflow::Saturate,
        }
    }
}

/// A matrix whose elements are scaled and not yet rounded.
#[derive(Debug, Clone)]
pub struct Prepared {
    layout: BlockGrid,
    scaled: Vec<f32>,
    /// NaN that the format has no code for.
    nan: Vec<usize>,
    scales: Vec<BlockScale>,
    tensor_scale: Option<f32>,
    dequantize: Operation,
    overflow: usize,
    collapsed: usize,
    choices: Option<Vec<u8>>,
}

/// A matrix that went through a cast.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The values of codes and scales, row-major, in the shape of the matrix.
    pub values: Vec<f32>,
    /// The codes, row-major, as the format has them ([`Grid::sign_magnitude`] for one order). NaN has all bits below
    /// the sign set, as PyTorch writes it; in a format without NaN it has the code of 1.5, as torchao writes it.
    pub codes: Vec<u16>,
    /// The stored scale of each block, as f32, in the shape of [`BlockGrid::counts`]: the factor of values, without the
    /// tensor's scale, and without the factor where scales are bytes. NaN for a poisoned block.
    pub scales: Vec<f32>,
    /// The same as bytes, if the storage type is E8M0 or E4M3.
    pub scale_codes: Option<Vec<u8>>,
    /// The factor of all stored scales, where there is such a scale.
    pub tensor_scale: Option<f32>,
    /// The blocks.
    pub layout: BlockGrid,
    /// Elements beyond the format's largest value by more than the rounding of the scale; they saturate.
    pub overflow: usize,
    /// Blocks of about equal values, which a scale from their standard deviation ([`Rule::Rms`]) takes to about zero.
    pub collapsed: usize,
    /// The number of the chosen candidate of each block, from 0, in the shape of the scales, if the cast chooses its
    /// scales.
    pub choices: Option<Vec<u8>>,
}

impl Cast {
    /// Refuses fields that exclude each other, are out of range, or do not suit the format.
    ///
    /// # Errors
    /// [`CastError::Fields`].
    pub fn check(&self, grid: &Grid) -> Result<(), CastError> {
        if let Block::Along(0) | Block::Tile([0, _] | [_, 0]) = self.block {
            return Err(CastError::fields("`block` has no elements", "32 is MX's, [128, 128] DeepSeek-V3's"));
        }
        if self.block == Block::None && self.scaling != Scaling::default() {
            return Err(CastError::fields(
                "`scaling` has no effect with block none",
                "leave it out, or set block to tensor, row, a number or a tile",
            ));
        }
        if self.scaling.rule == Rule::Even
            && matches!(self.rounding, Rounding::TowardZero | Rounding::NearestZero)
        {
            return Err(CastError::fields(
                "`scaling.rule` is even, which rounds the largest magnitude to nearest, ties up, but `rounding` does not",
                "use rounding nearest-even, or rule floor",
            ));
        }
        let has_blocks = matches!(self.block, Block::Row | Block::Along(_) | Block::Tile(_));
        if self.scaling.amax.is_some() && has_blocks && !self.scaling.tensor {
            return Err(CastError::fields(
                "`scaling.amax` = \"static\" needs one scale for the tensor",
                "blocks take their scales from the current tensor: leave amax out; or use type e4m3 with tensor f32",
            ));
        }
        if self.overflow == Overflow::NonFinite && overflow_codes(grid.values()).is_none() {
            return Err(CastError::fields(
                "`overflow` is nonfinite, but the format has neither infinities nor NaN",
                "use overflow = \"saturate\"",
            ));
        }
        self.rounding.check(grid)?;
        self.transform.map_or(Ok(()), Hadamard::check)?;
        self.scaling.check(grid)
    }

    /// Transforms a row-major matrix, computes its scales and scales its elements. `axis` is that of blocks and
    /// transforms; `key` gives the signs of a random transform.
    ///
    /// # Errors
    /// [`CastError`]: the fields, the number of elements, or an axis that the transform does not divide.
    pub fn prepare(
        &self,
        grid: &Grid,
        values: &[f32],
        shape: Shape,
        axis: Axis,
        key: &RandomKey,
    ) -> Result<Prepared, CastError> {
        self.check(grid)?;
        shape.check(values.len())?;
        let mut scaled = match self.transform {
            Some(transform) => transform.apply(values, shape, axis, key)?,
            None => values.to_vec(),
        };
        let layout = BlockGrid::new(self.block, shape, axis);
        let mut blocks = vec![BlockStatistics::default(); layout.count()];
        let (scales, tensor_scale) = if self.block == Block::None {
            (vec![BlockScale::ONE], None)
        } else {
            for (block, range) in layout.runs() {
                scaled[range].iter().for_each(|x| blocks[block].add(*x));
            }
            self.scaling.scales(grid.range(), &blocks)
        };
        let (scales, choices) = self.chosen(grid, &blocks, scales, &scaled, &layout, axis);
        let collapsed = match self.scaling.rule {
            Rule::Rms { .. } => collapsed(grid, &blocks, &scales),
            _ => 0,
        };
        for (block, range) in layout.runs() {
            let BlockScale { encode, decode, .. } = scales[block];
            for x in &mut scaled[range] {
                *x = self.scaling.quantize.quantize(*x, [encode, decode]);
                // The sign of such a NaN is the processor's choice.
                if encode.is_nan() {
                    *x = f32::NAN;
                }
            }
        }
        let overflow = scaled.iter().filter(|x| grid.is_beyond(**x)).count();
        let nan = if grid.has_nan() { Vec::new() } else { take_nan(&mut scaled) };
        let dequantize = self.scaling.dequantize;
        Ok(Prepared { layout, scaled, nan, scales, tensor_scale, dequantize, overflow, collapsed, choices })
    }

    /// The scales with the smallest errors, and the numbers of their candidates, if the cast chooses scales.
    fn chosen(
        &self,
        grid: &Grid,
        blocks: &[BlockStatistics],
        scales: Vec<BlockScale>,
        values: &[f32],
        layout: &BlockGrid,
        axis: Axis,
    ) -> (Vec<BlockScale>, Option<Vec<u8>>) {
        if self.scaling.choice.is_none() || self.block == Block::None {
            return (scales, None);
        }
        let tensor = self.scaling.tensor_scale(grid.range(), blocks);
        let of = |(index, block): (usize, &BlockStatistics)| {
            let elements =
                layout.elements(index, axis).map(|element| element.map_or(0.0, |index| values[index]));
            self.scaling.chosen(grid.range(), block, tensor.as_ref(), elements)
        };
        let (scales, choices) = blocks.iter().enumerate().map(of).unzip();
        (scales, Some(choices))
    }

    /// The codes of scaled elements, by a format that rounds in the modes of plugins. `key` gives the words of few
    /// random bits, and of stochastic rounding beyond the largest value; the key of stochastic rounding itself is that
    /// of `encode`, which returns as many codes as it gets elements.
    ///
    /// # Errors
    /// The errors of `encode`.
    pub fn codes<E>(
        &self,
        grid: &Grid,
        scaled: &[f32],
        key: &RandomKey,
        encode: impl FnMut(&[f32], Mode) -> Result<Vec<u16>, E>,
    ) -> Result<Vec<u16>, E> {
        self.codes_by(grid, scaled, Words::new(key), encode)
    }

    /// [`Self::codes`] with these random words.
    ///
    /// # Errors
    /// The errors of `encode`.
    pub fn codes_by<E>(
        &self,
        grid: &Grid,
        scaled: &[f32],
        words: impl Iterator<Item = u32> + Clone,
        encode: impl FnMut(&[f32], Mode) -> Result<Vec<u16>, E>,
    ) -> Result<Vec<u16>, E> {
        let mut codes = self.rounding.codes(grid, scaled, words.clone(), encode)?;
        if let Some([positive, negative]) =
            overflow_codes(grid.values()).filter(|_| self.overflow == Overflow::NonFinite)
        {
            for ((code, x), word) in codes.iter_mut().zip(scaled).zip(words) {
                if exceeds(self.rounding, grid.values(), *x, word) {
                    *code = if *x > 0.0 { positive } else { negative };
                }
            }
        }
        Ok(codes)
    }
}

/// The number of blocks whose scales take the format's target to far less than the largest magnitude.
fn collapsed(grid: &Grid, blocks: &[BlockStatistics], scales: &[BlockScale]) -> usize {
    /// A single element far above millions of others has a standard deviation that is larger.
    const LEAST: f32 = 1.0 / 1024.0;
    let is_collapsed =
        |block: &BlockStatistics, scale: &BlockScale| grid.range().target * scale.decode < block.amax * LEAST;
    blocks.iter().zip(scales).filter(|(block, scale)| is_collapsed(block, scale)).count()
}

/// Replaces NaN by 1.5 and returns the indices. torchao's conversion to formats without NaN gives NaN the code of 1.5.
fn take_nan(scaled: &mut [f32]) -> Vec<usize> {
    let places: Vec<usize> = (0..scaled.len()).filter(|&i| scaled[i].is_nan()).collect();
    places.iter().for_each(|&i| scaled[i] = 1.5);
    places
}

impl Prepared {
    /// The scaled elements, row-major: the input of rounding. An element's index here is its index for stochastic
    /// rounding.
    #[must_use]
    pub fn scaled(&self) -> &[f32] {
        &self.scaled
    }

    /// The encode and decode scale of each element, row-major.
    pub(crate) fn scales_of_elements(&self) -> Vec<[f32; 2]> {
        let mut scales = vec![[0.0; 2]; self.scaled.len()];
        for (block, range) in self.layout.runs() {
            scales[range].fill([self.scales[block].encode, self.scales[block].decode]);
        }
        scales
    }

    /// The indices of each block's elements.
    pub(crate) fn blocks(&self) -> Vec<Vec<usize>> {
        let mut blocks = vec![Vec::new(); self.layout.count()];
        self.layout.runs().for_each(|(block, range)| blocks[block].extend(range));
        blocks
    }

    pub(crate) fn scaled_mut(&mut self) -> &mut [f32] {
        &mut self.scaled
    }

    /// The values of the codes that the scaled elements were rounded to. A zero has the sign of its element, also where
    /// the format has one zero only.
    ///
    /// # Errors
    /// [`CastError::Codes`]: another number of codes than elements.
    pub fn finish(self, grid: &Grid, mut codes: Vec<u16>) -> Result<Applied, CastError> {
        if codes.len() != self.scaled.len() {
            return Err(CastError::Codes { codes: codes.len(), elements: self.scaled.len() });
        }
        let mut values = vec![0.0; codes.len()];
        for (block, range) in self.layout.runs() {
            let BlockScale { encode, decode, .. } = self.scales[block];
            for i in range {
                if let Some(nan) = grid.nan_code(self.scaled[i]) {
                    codes[i] = nan;
                }
                let point = grid.decode(codes[i]);
                let point = if point == 0.0 { point.copysign(self.scaled[i]) } else { point };
                values[i] = self.dequantize.dequantize(point, [encode, decode]);
            }
        }
        self.nan.iter().for_each(|&i| values[i] = f32::NAN);
        let scale_codes = self.scales.iter().map(|scale| scale.code).collect();
        let scales = self.scales.iter().map(|scale| scale.stored).collect();
        let Self { layout, tensor_scale, overflow, collapsed, choices, .. } = self;
        Ok(Applied { values, codes, scales, scale_codes, tensor_scale, layout, overflow, collapsed, choices })
    }
}
