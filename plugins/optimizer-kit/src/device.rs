//! This crate's rules on a device: their texts, and their numbers.
//!
//! All optimizers share the texts (`kernel_texts`), whose sources are those of `kernel-kit`, which defines the words of
//! a step. All of them are computed here, as for [`crate::rule`], so that a device's step has bit-identical factors.
//! Only minifloats have descriptions: tables go through main memory.

use altgrad_plugin_api::{
    Blocks, FormatSpec, Grid, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError, Scales,
    grid::MinifloatGrid,
    kernel::{
        rules::UpdateRule,
        table::{self, GridConstants},
    },
};

use crate::{
    Moments,
    codes::exp2i,
    kernel_texts,
    rule::{PlainStep, in_two, is_of_zeros},
    smooth::Smooth,
};

/// Elements up to which a parameter's exponents are added up exactly.
const MOST_PREPARED: u64 = 1 << 27;

/// A grid as a step's words, except for its scales, which are in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// The factor of steps or gradients.
    amount: f32,
    geometry: [u32; 5],
    /// Columns of the matrix, rows and columns of a block, and blocks beside each other.
    blocks: [u32; 4],
}

impl Description {
    fn new(grid: Grid<'_>, amount: f32, geometry: [u32; 5]) -> Self {
        let Blocks { columns, block_rows, block_columns } = grid.scales.blocks;
        let extents = [columns, block_rows, block_columns, columns.div_ceil(block_columns)];
        // A device has less than 2^31 elements: longer extents count as unlimited.
        let blocks = extents.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        Self { amount, geometry, blocks }
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        [self.amount.to_bits()].into_iter().chain(self.geometry).chain(self.blocks)
    }
}

/// The text of an operation; see [`altgrad_plugin_api::Optimizer::kernel`].
///
/// # Errors
/// The table is damaged.
pub fn kernel(op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
    table::find(kernel_texts::TEXTS, op, target, &GridConstants::default())
}

/// One update by a rule; `keep` is the factor of decay.
#[must_use]
pub fn step(rule: UpdateRule, keep: f32, moments: &Moments, description: Description) -> Launch {
    let scalars = factors(keep, moments).chain(description.words());
    Launch { op: rule.op(), scalars: scalars.collect() }
}

fn factors(keep: f32, moments: &Moments) -> impl Iterator<Item = u32> {
    [keep.to_bits()].into_iter().chain(moments.words())
}

impl PlainStep {
    /// The same on a device.
    #[must_use]
    pub fn launch(&self) -> Launch {
        Launch { op: UpdateRule::Plain.op(), scalars: factors(self.keep, &self.moments).collect() }
    }
}

/// The codes of a grid; `amount` times the inverse of an element's scale is the factor of spacings. `None` for tables,
/// and where f32 has no normal numbers for it.
///
/// # Errors
/// The format does not exist.
pub fn codes(grid: Grid<'_>, amount: f32) -> Result<Option<Description>, PluginError> {
    let FormatSpec::Minifloat(spec) = grid.spec else { return Ok(None) };
    let minifloat = MinifloatGrid::new(*spec)?;
    let (emin, m) = (minifloat.emin(), spec.significand_bits as i32);
    if !(-103..=126).contains(&emin) {
        return Ok(None);
    }
    let numbers = [exp2i(emin), minifloat.max_finite(), exp2i(emin - m), exp2i(emin - 23)];
    let [power, max, quantum, fine] = numbers.map(f32::to_bits);
    Ok(Some(Description::new(grid, amount, [power, spec.significand_bits, max, quantum, fine])))
}

/// The asinh chart of a minifloat, in weight units.
///
/// # Errors
/// The format does not exist.
pub fn chart(grid: Grid<'_>) -> Result<Option<Description>, PluginError> {
    let FormatSpec::Minifloat(spec) = grid.spec else { return Ok(None) };
    let chart = Smooth::new(&MinifloatGrid::new(*spec)?);
    Ok(chart.map(|chart| Description::new(grid, 1.0, chart.words().map(f32::to_bits))))
}

/// AdamW's step times `amount * (S / mean S)^p`: the mean first. `None` as [`codes`], for more than 2^27 elements, and
/// where a block rounds to zero, which texts do not leave out of the mean.
///
/// The device adds up the exponents of spacings in stored units; the contribution of the scales to the mean is computed
/// here.
///
/// # Errors
/// The format does not exist.
pub fn power(
    param: &ParamInfo<'_>,
    grid: Grid<'_>,
    (p, amount): (f64, f64),
    keep: f32,
    moments: &Moments,
) -> Result<Option<Vec<Launch>>, PluginError> {
    let elements = param.shape.iter().product::<u64>();
    if elements > MOST_PREPARED || grid.scales.pairs.iter().any(|&[scale, _]| is_of_zeros(scale)) {
        return Ok(None);
    }
    let Some(codes) = codes(grid, amount as f32)? else { return Ok(None) };
    let [power, ..] = codes.geometry;
    let scalars = [power].into_iter().chain(codes.blocks).collect();
    let prepare = Launch { op: KernelOp::PREPARE_UPDATE, scalars };
    let mean = mean_log2_scale(&grid.scales, elements);
    let (whole, rest) = (mean.floor(), mean - mean.floor());
    let ([high, low], rest) = (in_two(p).map(f32::to_bits), (rest as f32).to_bits());
    let description = Description { geometry: [power, whole as i32 as u32, high, low, rest], ..codes };
    Ok(Some(vec![prepare, step(UpdateRule::Power, keep, moments, description)]))
}

/// Mean over all elements of log2 of their scale over the first block's: 0 if all are equal.
fn mean_log2_scale(scales: &Scales<'_>, elements: u64) -> f64 {
    let log2 = |[scale, _]: [f32; 2]| f64::from(scale).log2();
    let Some(first) = scales.pairs.first().copied().map(log2) else { return 0.0 };
    let of_block = |(&pair, block): (&[f32; 2], u64)| {
        scales.blocks.len_of(block, elements) as f64 * (log2(pair) - first)
    };
    scales.pairs.iter().zip(0..).map(of_block).sum::<f64>() / elements.max(1) as f64
}
