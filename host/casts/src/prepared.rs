//! A matrix on its way through a cast: loops over all elements, which are compiled for the processor's registers.

use multiversion::multiversion;

use crate::{
    BlockGrid, CastError, Grid, Operation, Rule, Scaling, TensorScale, microexponents::MicroFactors,
    nested::Nested, powers::exp2, range::Range, scale_rule::BlockStatistics, scaling::BlockScale,
};

/// A matrix whose elements are scaled and not yet rounded.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) layout: BlockGrid,
    pub(crate) scaled: Vec<f32>,
    /// NaN that the format has no code for.
    pub(crate) nan: Vec<usize>,
    pub(crate) scales: Vec<BlockScale>,
    pub(crate) scaling: Scaling,
    pub(crate) range: Range,
    /// The scale of the tensor, or those of outer blocks.
    pub(crate) tensors: Vec<TensorScale>,
    pub(crate) outer: Option<BlockGrid>,
    /// The elements whose scales have one correction.
    pub(crate) corrected: Option<BlockGrid>,
    /// The factors of sub-blocks, which scaled elements do not have.
    pub(crate) micro: Option<MicroFactors>,
    /// The random words of the blocks' scales, if they are rounded at random.
    pub(crate) words: Vec<u32>,
    pub(crate) overflow: usize,
    pub(crate) collapsed: usize,
    pub(crate) choices: Option<Vec<u8>>,
    /// The table of each block; empty if the format has one.
    pub(crate) tables: Vec<u16>,
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
    /// The same for each outer block, if there are such scales, in the shape of the grid of outer blocks.
    pub outer_scales: Option<Vec<f32>>,
    /// The exponent of the factor of each of the smallest sub-blocks, if there are microexponents, in the shape of
    /// their grid.
    pub microexponents: Option<Vec<u8>>,
    /// The blocks.
    pub layout: BlockGrid,
    /// Elements beyond the format's largest value by more than the rounding of the scale; they saturate.
    pub overflow: usize,
    /// Blocks of about equal values, which a scale from their standard deviation ([`Rule::Rms`]) takes to about zero.
    pub collapsed: usize,
    /// The number of the chosen candidate of each block, from 0, in the shape of the scales, if the cast chooses its
    /// scales.
    pub choices: Option<Vec<u8>>,
    /// The number of each block's table, 0 being that of the format's description, in the shape of the scales; empty if
    /// the format has one.
    pub tables: Vec<u16>,
}

/// The scale of the tensor, or of the outer block, that a block lies in.
pub(crate) fn outer_of<'a>(
    tensors: &'a [TensorScale],
    layout: &BlockGrid,
    outer: Option<&BlockGrid>,
    block: usize,
) -> Option<&'a TensorScale> {
    tensors.get(outer.map_or(0, |outer| layout.within(block, outer)))
}

/// The statistics of each block, as scales of a rule depend on them.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(crate) fn statistics(values: &[f32], layout: &BlockGrid, rule: Rule) -> Vec<BlockStatistics> {
    let mut blocks = vec![BlockStatistics::default(); layout.count()];
    let with_deviation = matches!(rule, Rule::Rms { .. });
    layout.each_run(|block, run| blocks[block].add_all(&values[run], with_deviation));
    blocks
}

/// Scales elements for rounding.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(crate) fn quantize(values: &mut [f32], layout: &BlockGrid, scales: &[BlockScale], operation: Operation) {
    layout.each_run(|block, run| {
        let BlockScale { encode, decode, .. } = scales[block];
        let run = &mut values[run];
        operation.quantize_all(run, [encode, decode]);
        // The sign of such a NaN is the processor's choice.
        if encode.is_nan() {
            run.fill(f32::NAN);
        }
    });
}

/// The number of elements outside of these bounds.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(crate) fn count_beyond(values: &[f32], [least, most]: [f32; 2]) -> usize {
    let mut count = 0;
    // Counts of a part fit into u32, of which a register holds more.
    for part in values.chunks(1 << 16) {
        let mut of_part = 0u32;
        for x in part {
            of_part += u32::from((*x > most) | (*x < least));
        }
        count += of_part as usize;
    }
    count
}

/// Replaces NaN by 1.5 and returns the indices. torchao's conversion to formats without NaN gives NaN the code of 1.5.
pub(crate) fn take_nan(scaled: &mut [f32]) -> Vec<usize> {
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
    pub fn finish(mut self, grid: &Grid, mut codes: Vec<u16>) -> Result<Applied, CastError> {
        if codes.len() != self.scaled.len() {
            return Err(CastError::Codes { codes: codes.len(), elements: self.scaled.len() });
        }
        self.correct(grid, &codes);
        for (code, x) in codes.iter_mut().zip(&self.scaled).filter(|(_, x)| x.is_nan()) {
            *code = grid.nan_code(*x).unwrap_or(*code);
        }
        let point = |(code, x): (&u16, &f32)| {
            let point = grid.decode(*code);
            if point == 0.0 { point.copysign(*x) } else { point }
        };
        let mut values: Vec<f32> = codes.iter().zip(&self.scaled).map(point).collect();
        if !self.tables.is_empty() {
            for (block, run) in self.layout.runs() {
                let table = grid.own_blocks().table(self.tables[block]).by_code();
                for ((value, code), x) in
                    values[run.clone()].iter_mut().zip(&codes[run.clone()]).zip(&self.scaled[run])
                {
                    let point = table.get(usize::from(*code)).copied().unwrap_or(f32::NAN);
                    *value = if point == 0.0 { point.copysign(*x) } else { point };
                }
            }
        }
        scale_back(&self, &mut values);
        self.nan.iter().for_each(|&i| values[i] = f32::NAN);
        let scale_codes = self.scales.iter().map(|scale| scale.code).collect();
        let scales = self.scales.iter().map(|scale| scale.stored).collect();
        let Self { layout, overflow, collapsed, choices, tables, .. } = self;
        let microexponents = self.micro.map(|micro| micro.exponents);
        let mut tensors = self.tensors.iter().map(|tensor| self.scaling.stored_tensor_scale(tensor));
        let (tensor_scale, outer_scales) = match self.outer {
            Some(_) => (None, Some(tensors.collect())),
            None => (tensors.next(), None),
        };
        Ok(Applied {
            values,
            codes,
            scales,
            scale_codes,
            tensor_scale,
            outer_scales,
            microexponents,
            layout,
            overflow,
            collapsed,
            choices,
            tables,
        })
    }

    /// The encode and decode scale of each block. Corrections and factors of sub-blocks are not in them.
    pub fn pairs(&self) -> impl Iterator<Item = [f32; 2]> {
        self.scales.iter().map(|scale| scale.pair())
    }

    /// Applies EDEN's correction to the scales, if the cast has it.
    fn correct(&mut self, grid: &Grid, codes: &[u16]) {
        let Some(groups) = &self.corrected else { return };
        let mut sums = vec![[0f64; 2]; groups.count()];
        groups.each_run(|group, run| {
            let [mut squares, mut products] = sums[group];
            for (v, code) in self.scaled[run.clone()].iter().zip(&codes[run]) {
                // What is not finite adds nothing.
                let [v, q] = if v.is_finite() { [*v, grid.decode(*code)].map(f64::from) } else { [0.0; 2] };
                squares += v * v;
                products += v * q;
            }
            sums[group] = [squares, products];
        });
        for (block, scale) in self.scales.iter_mut().enumerate() {
            let [squares, products] = sums[self.layout.within(block, groups)];
            let factor = if products == 0.0 { 1.0 } else { (squares / products) as f32 };
            let tensor = outer_of(&self.tensors, &self.layout, self.outer.as_ref(), block);
            let word = self.words.get(block).copied().unwrap_or_default();
            *scale = self.scaling.corrected(&self.range, *scale, tensor, factor, word);
        }
    }
}

/// Scales the values of codes back.
#[multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn scale_back(prepared: &Prepared, values: &mut [f32]) {
    let Prepared { layout, scales, scaling, range, tensors, outer, micro, .. } = prepared;
    let is_nested = scaling.dequantize == Operation::Nested;
    let smallest = micro.as_ref().map_or(*layout, |micro| micro.layout);
    smallest.each_run(|part, run| {
        let run = &mut values[run];
        let mut block = part;
        if let Some(MicroFactors { exponents, .. }) = micro {
            block = smallest.within(part, layout);
            let factor = exp2(i32::from(exponents[part]));
            for value in &mut *run {
                *value *= factor;
            }
        }
        let scale = &scales[block];
        let tensor = if is_nested { outer_of(tensors, layout, outer.as_ref(), block) } else { None };
        match tensor {
            Some(tensor) => Nested::new(scaling, range, tensor).restore(run, scale),
            None => scaling.dequantize.dequantize_all(run, [scale.encode, scale.decode]),
        }
    });
}
