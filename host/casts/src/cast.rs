//! A cast, and the scales of a matrix by it.

use altgrad_plugin_api::{RandomKey, Rounding as Mode, random::Words};

use crate::{
    Axis, Block, BlockGrid, CastError, Grid, Hadamard, Prepared, Rounding, Rule, Scaling, Shape, TensorScale,
    block_choice::{choose, count_beyond_tables},
    overflow::{exceeds, overflow_codes},
    prepared::{count_beyond, outer_of, quantize, statistics, take_nan},
    range::Range,
    scale_rule::BlockStatistics,
    scale_type::ScaleRounding,
    scaling::BlockScale,
};

/// Element at which the random words of scales begin, one per block; no tensor has as many elements.
const SCALES_OFFSET: u64 = 1 << 62;

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
    /// The axis of a mean that is subtracted before, and rounded by itself ([`crate::Centered`]): that of the tokens.
    /// The functions of this type cast one matrix and do not read it; callers cast residuals and mean.
    pub center: Option<Axis>,
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
            center: None,
            overflow: Overflow::Saturate,
        }
    }
}

impl Cast {
    /// True if the cast needs the whole matrix: its mean, or more than a block and the tensor for scales or values.
    #[must_use]
    pub fn needs_matrix(&self) -> bool {
        self.center.is_some() || self.scaling.needs_matrix()
    }

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
        for (key, extent) in [("outer", self.scaling.outer), ("correction", self.scaling.correction)] {
            let divides =
                |block: usize| extent.is_none_or(|extent| extent > 0 && extent.is_multiple_of(block));
            if extent.is_some() && !matches!(self.block, Block::Along(block) if divides(block)) {
                return Err(CastError::fields(
                    format!(
                        "`scaling.{key}` needs blocks of a number of elements along the axis that divides it"
                    ),
                    "set block = 16 and a multiple of 16, or leave the key out",
                ));
            }
        }
        let along = |size: usize| matches!(self.block, Block::Along(block) if block.is_multiple_of(size));
        if !self.scaling.microexponents.sizes().all(along) {
            return Err(CastError::fields(
                "`scaling.microexponents` needs blocks of a number of elements along the axis that they divide",
                "set block = 64 with microexponents = [8, 4], or block = 16 with [2]",
            ));
        }
        if self.scaling.needs_matrix() && !has_blocks {
            return Err(CastError::fields(
                "`scaling` has a stochastic round or a nested dequantize, which need blocks",
                "set block to row, a number or a tile",
            ));
        }
        if self.center.is_some()
            && (self.transform.is_some() || self.block == Block::Row || self.scaling.amax.is_some())
        {
            return Err(CastError::fields(
                "`center` excludes a transform, block row, and an amax that is not the tensor's",
                "leave center out, or set transform = \"none\", block to a number, and amax = \"dynamic\"",
            ));
        }
        self.check_own_blocks(grid)?;
        self.rounding.check(grid)?;
        self.transform.map_or(Ok(()), Hadamard::check)?;
        self.scaling.check(grid)
    }

    /// Refuses fields that do not combine with blocks that the format chooses.
    fn check_own_blocks(&self, grid: &Grid) -> Result<(), CastError> {
        let own = grid.own_blocks();
        if !own.are_any() || self.block == Block::None {
            return Ok(());
        }
        let scaling = &self.scaling;
        let is_of_plugins =
            !matches!(self.rounding, Rounding::NearestZero | Rounding::NearestUp | Rounding::FewBits(_));
        let excluded = [
            ("scaling.rule", matches!(scaling.rule, Rule::Rms { .. })),
            ("scaling.tensor", scaling.tensor),
            ("scaling.choice", scaling.choice.is_some()),
            ("scaling.correction", scaling.correction.is_some()),
            ("scaling.microexponents", !scaling.microexponents.is_empty()),
            ("scaling.round", scaling.round != ScaleRounding::Nearest),
            ("scaling.amax", scaling.amax.is_some()),
            ("rounding", own.have_tables() && !is_of_plugins),
            ("overflow", own.have_tables() && self.overflow != Overflow::Saturate),
        ];
        excluded.into_iter().find(|(_, is)| *is).map_or(Ok(()), |(key, _)| {
            Err(CastError::fields(
                format!("`{key}` does not combine with a format that chooses tables or magnitudes of blocks"),
                "leave it out for this format",
            ))
        })
    }

    /// Transforms a row-major matrix, computes its scales and scales its elements. `axis` is that of blocks and
    /// transforms; `key` gives the signs of a random transform and the random words of scales.
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
        self.prepare_by(grid, values, shape, axis, key, Self::words_of_scales(key))
    }

    /// The random words of a matrix's scales, one per block.
    #[must_use]
    pub fn words_of_scales(key: &RandomKey) -> Words {
        Words::new(&RandomKey { offset: key.offset.wrapping_add(SCALES_OFFSET), ..*key })
    }

    /// [`Self::prepare`] with these random words of the blocks' scales; `signs` is the key of a random transform.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_by(
        &self,
        grid: &Grid,
        values: &[f32],
        shape: Shape,
        axis: Axis,
        signs: &RandomKey,
        words: impl Iterator<Item = u32>,
    ) -> Result<Prepared, CastError> {
        self.check(grid)?;
        shape.check(values.len())?;
        let mut scaled = match self.transform {
            Some(transform) => transform.apply(values, shape, axis, signs)?,
            None => values.to_vec(),
        };
        let (layout, range) = (BlockGrid::new(self.block, shape, axis), self.scaling.range(grid.range()));
        let along = |extent: Option<usize>| extent.map(|n| BlockGrid::new(Block::Along(n), shape, axis));
        let [outer, corrected] = [self.scaling.outer, self.scaling.correction].map(along);
        let is_random = self.scaling.round == ScaleRounding::Stochastic;
        let words: Vec<u32> = words.take(if is_random { layout.count() } else { 0 }).collect();
        let mut blocks = Vec::new();
        let (mut scales, mut choices, mut tensors) = (vec![BlockScale::ONE], None, Vec::new());
        let mut tables = Vec::new();
        if self.block != Block::None && grid.own_blocks().are_any() {
            blocks = statistics(&scaled, &layout, self.scaling.rule);
            (scales, tables) = self.own_blocks(grid, &range, (&scaled, &layout, &blocks))?;
        } else if self.block != Block::None {
            blocks = statistics(&scaled, &layout, self.scaling.rule);
            tensors = self.tensor_scales(&range, &blocks, &layout, outer.as_ref());
            let mut buffer = Vec::new();
            let of = |(index, block): (usize, &BlockStatistics)| {
                let elements = match self.scaling.choice {
                    Some(_) => layout.elements(&scaled, index, axis, &mut buffer),
                    None => &[],
                };
                let tensor = outer_of(&tensors, &layout, outer.as_ref(), index);
                let word = words.get(index).copied().unwrap_or_default();
                self.scaling.chosen(&range, block, tensor, elements, word)
            };
            let numbers: Vec<u8>;
            (scales, numbers) = blocks.iter().enumerate().map(of).unzip();
            choices = self.scaling.choice.map(|_| numbers);
        }
        let collapsed = match self.scaling.rule {
            Rule::Rms { .. } => collapsed(&range, &blocks, &scales),
            _ => 0,
        };
        quantize(&mut scaled, &layout, &scales, self.scaling.quantize);
        let micro = self.scaling.microexponents.divide(&mut scaled, shape, axis, grid.range().emax());
        let overflow = match tables.is_empty() {
            true => count_beyond(&scaled, grid.bounds()),
            false => count_beyond_tables(grid.own_blocks(), (&scaled, &layout, &tables)),
        };
        let nan = if grid.has_nan() { Vec::new() } else { take_nan(&mut scaled) };
        Ok(Prepared {
            layout,
            scaled,
            nan,
            scales,
            scaling: self.scaling,
            range,
            tensors,
            outer,
            corrected,
            micro,
            words,
            overflow,
            collapsed,
            choices,
            tables,
        })
    }

    /// Scales and tables of blocks that the format chooses; no tables if it has one.
    fn own_blocks(
        &self,
        grid: &Grid,
        range: &Range,
        (values, layout, blocks): (&[f32], &BlockGrid, &[BlockStatistics]),
    ) -> Result<(Vec<BlockScale>, Vec<u16>), CastError> {
        let mut elements = vec![Vec::new(); blocks.len()];
        layout.runs().for_each(|(block, run)| elements[block].extend_from_slice(&values[run]));
        let own = grid.own_blocks();
        let chosen = blocks
            .iter()
            .zip(&elements)
            .map(|(block, elements)| choose(own, &self.scaling, range, block, elements));
        let (tables, scales): (Vec<_>, Vec<_>) = chosen.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Ok((scales, if own.have_tables() { tables } else { Vec::new() }))
    }

    /// The scale of the tensor, or those of its outer blocks, if there are any.
    fn tensor_scales(
        &self,
        range: &Range,
        blocks: &[BlockStatistics],
        layout: &BlockGrid,
        outer: Option<&BlockGrid>,
    ) -> Vec<TensorScale> {
        let Some(outer) = outer else {
            return self.scaling.tensor_scale(range, blocks).into_iter().collect();
        };
        let mut merged = vec![BlockStatistics::default(); outer.count()];
        for (index, block) in blocks.iter().enumerate() {
            merged[layout.within(index, outer)].merge(block);
        }
        merged.iter().filter_map(|block| self.scaling.tensor_scale(range, &[*block])).collect()
    }

    /// The codes of a matrix's scaled elements, if blocks choose among tables; the plugin gives the codes of other
    /// formats.
    ///
    /// # Errors
    /// [`CastError::Magnitude`]: a table has no code for an element.
    pub fn codes_of_tables(
        &self,
        grid: &Grid,
        prepared: &Prepared,
        key: &RandomKey,
    ) -> Result<Option<Vec<u16>>, CastError> {
        if prepared.tables.is_empty() {
            return Ok(None);
        }
        let codes = self.codes(grid, &prepared.scaled, key, |scaled, mode| {
            grid.own_blocks().codes((scaled, &prepared.layout, &prepared.tables), mode, key)
        });
        codes.map(Some).map_err(|error| CastError::Magnitude(error.message.into()))
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
fn collapsed(range: &Range, blocks: &[BlockStatistics], scales: &[BlockScale]) -> usize {
    /// A single element far above millions of others has a standard deviation that is larger.
    const LEAST: f32 = 1.0 / 1024.0;
    let is_collapsed =
        |block: &BlockStatistics, scale: &BlockScale| range.target * scale.decode < block.amax * LEAST;
    blocks.iter().zip(scales).filter(|(block, scale)| is_collapsed(block, scale)).count()
}
