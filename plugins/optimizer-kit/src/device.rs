//! This crate's rules on a device: which text, and its numbers.
//!
//! The texts are `kernel-kit`'s; what a step's words mean is said there. All of them are computed here, as for [`crate::rule`], so that
//! a device's step has the same factors to the bit. Only minifloats have descriptions: tables go through main memory.

use altgrad_plugin_api::{
    FormatSpec, Grid, KernelOp, KernelTarget, KernelText, Launch, ParamInfo, PluginError,
    grid::MinifloatGrid,
    kernel::{
        rules::Rule,
        table::{self, GridConstants, Text},
    },
};

use crate::{
    Moments,
    codes::exp2i,
    rule::{Plain, in_two},
    smooth::{self, Smooth},
};

/// Elements up to which a parameter's exponents are added up exactly.
const MOST_PREPARED: u64 = 1 << 27;

/// A grid as a step's words: seven of them.
pub type Description = [u32; 7];

/// The text of an operation; see [`altgrad_plugin_api::Optimizer::kernel`].
///
/// # Errors
/// The table is damaged.
pub fn kernel(
    texts: &[Text],
    op: KernelOp,
    target: &KernelTarget,
) -> Result<Option<KernelText>, PluginError> {
    table::find(texts, op, target, &GridConstants::default())
}

/// One update by a rule; `keep` is what decay leaves.
#[must_use]
pub fn step(rule: Rule, keep: f32, moments: &Moments, description: Description) -> Launch {
    let factors = moments.words();
    let scalars = [keep.to_bits()].into_iter().chain(factors).chain(description);
    Launch { op: rule.op(), scalars: scalars.collect() }
}

impl Plain {
    /// The same on a device.
    #[must_use]
    pub fn launch(&self) -> Launch {
        step(Rule::Plain, self.keep, &self.moments, Description::default())
    }
}

/// The codes of a grid with one scale: `unit` of it is what spacings are multiplied by. `None` for tables, for more scales, and where
/// f32 has no normal numbers for it.
///
/// # Errors
/// The format is none.
pub fn codes(grid: Grid<'_>, unit: impl Fn(f32) -> f32) -> Result<Option<Description>, PluginError> {
    let (FormatSpec::Minifloat(spec), Some([scale, _])) = (grid.spec, grid.scales.single()) else {
        return Ok(None);
    };
    let minifloat = MinifloatGrid::new(*spec)?;
    let (emin, m) = (minifloat.emin(), spec.significand_bits as i32);
    if !(-103..=126).contains(&emin) {
        return Ok(None);
    }
    let numbers = [exp2i(emin), minifloat.max_finite(), exp2i(emin - m), exp2i(emin - 23)];
    let [power, max, quantum, fine] = numbers.map(f32::to_bits);
    Ok(Some([scale.to_bits(), unit(scale).to_bits(), power, spec.significand_bits, max, quantum, fine]))
}

/// The asinh chart of a minifloat, in weight units.
///
/// # Errors
/// The format is none.
pub fn chart(grid: Grid<'_>) -> Result<Option<Description>, PluginError> {
    let (FormatSpec::Minifloat(spec), Some([scale, inverse])) = (grid.spec, grid.scales.single()) else {
        return Ok(None);
    };
    let chart = Smooth::new(&MinifloatGrid::new(*spec)?);
    let numbers = |words: [f32; 5]| {
        let [shift, unshift, b, share, max] = words;
        [scale, inverse, shift, unshift, b, share, max].map(f32::to_bits)
    };
    Ok(chart.as_ref().map(smooth::Smooth::words).map(numbers))
}

/// AdamW's step times `amount * (S / mean S)^p`: the mean first. `None` as [`codes`], and for more than 2^27 elements.
///
/// # Errors
/// The format is none.
pub fn power(
    param: &ParamInfo<'_>,
    grid: Grid<'_>,
    (p, amount): (f64, f64),
    keep: f32,
    moments: &Moments,
) -> Result<Option<Vec<Launch>>, PluginError> {
    if param.shape.iter().product::<u64>() > MOST_PREPARED {
        return Ok(None);
    }
    let [high, low] = in_two(p).map(f32::to_bits);
    Ok(codes(grid, |_| amount as f32)?.map(|[scale, amount, power, m, ..]| {
        let prepare = Launch { op: KernelOp::PREPARE_UPDATE, scalars: vec![scale, power].into() };
        let description = [scale, amount, power, m, high, low, 0];
        vec![prepare, step(Rule::Power, keep, moments, description)]
    }))
}
