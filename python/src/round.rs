//! The values of a cast without its codes, computed by the format's own rounding on all threads: what layers and
//! observers need.
//!
//! The values are those of [`altgrad_casts::Cast`]'s two halves. Casts whose arithmetic a format does not have take
//! those halves: scales by division, ties toward zero, and scales from standard deviations.

use altgrad_casts::{
    Axis, BlockGrid, BlockStatistics, Cast, Centered, Grid, NonFinite, Operation, Overflow, Rounding, Rule,
    Scaling, Shape,
};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{QuantParams, QuantStats, RandomKey, Rounding as Mode, Scales};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    errors::{exception, refusal},
    parts,
};

/// The statistics of a rounding, and the factor before it where there is only one.
pub(crate) struct Rounded {
    pub(crate) stats: QuantStats,
    pub(crate) scale: Option<f32>,
}

/// The random bits of a rounding, and of the signs of a transform.
pub(crate) struct Keys {
    pub(crate) rounding: RandomKey,
    pub(crate) signs: RandomKey,
}

/// Rounds the rows of a matrix.
pub(crate) fn round(
    cast: &Cast,
    plugin: &FormatPlugin,
    source: &[f32],
    target: &mut [f32],
    shape: Shape,
    keys: &Keys,
) -> PyResult<Rounded> {
    let grid = grid(plugin)?;
    cast.check(&grid).and_then(|()| shape.check(source.len())).map_err(|error| refusal(&error))?;
    if let Some(along) = cast.center {
        return centered(cast, plugin, source, target, shape, along, keys);
    }
    let rotated = rotated(cast, source, shape, &keys.signs)?;
    let source = rotated.as_deref().unwrap_or(source);
    match mode(cast) {
        Some(mode) => by_format(cast, &grid, plugin, source, target, shape, mode, keys.rounding),
        None => by_halves(cast, &grid, plugin, source, target, shape, keys.rounding),
    }
}

/// Rounds residuals and mean each by itself; statistics are those of the residuals.
fn centered(
    cast: &Cast,
    plugin: &FormatPlugin,
    source: &[f32],
    target: &mut [f32],
    shape: Shape,
    along: Axis,
    keys: &Keys,
) -> PyResult<Rounded> {
    let cast = Cast { center: None, ..*cast };
    let Centered { residuals, mean } = Centered::new(source, shape, along);
    let mut rounded = vec![0.0; mean.len()];
    let of_mean = Keys { rounding: Centered::key_of_mean(&keys.rounding), ..*keys };
    round(&cast, plugin, &mean, &mut rounded, Shape { rows: 1, columns: mean.len() }, &of_mean)?;
    let stats = round(&cast, plugin, &residuals, target, shape, keys)?;
    Centered::add(target, &rounded, shape, along);
    Ok(stats)
}

/// The encode and decode scale of each block, from the blocks' largest finite magnitudes; NaN where a block has an
/// element that is not finite, and the cast asks for that.
pub(crate) fn scales(cast: &Cast, plugin: &FormatPlugin, amax: &[f32]) -> PyResult<Vec<[f32; 2]>> {
    let grid = grid(plugin)?;
    cast.check(&grid).map_err(|error| refusal(&error))?;
    if cast.center.is_some() || !depends_on_amax(&cast.scaling) {
        return Err(PyValueError::new_err("the scales do not follow from largest magnitudes"));
    }
    Ok(pairs(cast, &grid, amax))
}

/// The format of a plugin, unless its blocks have more than scales of the host's.
pub(crate) fn grid(plugin: &FormatPlugin) -> PyResult<Grid> {
    if plugin.conventions.has_own_blocks() {
        let name = &plugin.identity.name;
        let message =
            format!("`{name}` chooses tables or magnitudes of blocks, which casts in Python do not");
        return Err(PyValueError::new_err(message));
    }
    Grid::new(&plugin.spec, &plugin.conventions).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The transformed matrix, if there is a transform.
fn rotated(cast: &Cast, source: &[f32], shape: Shape, signs: &RandomKey) -> PyResult<Option<Vec<f32>>> {
    let Some(transform) = cast.transform else { return Ok(None) };
    if !shape.columns.is_multiple_of(transform.size) {
        let error = altgrad_casts::CastError::Transform { length: shape.columns, size: transform.size };
        return Err(refusal(&error));
    }
    let mut rotated = vec![0.0; source.len()];
    parts::map(source, &mut rotated, |_, source, rotated| {
        rotated.copy_from_slice(source);
        transform.rotate(rotated, signs);
        Ok::<_, PyErr>(())
    })?;
    Ok(Some(rotated))
}

/// The format's mode, if its arithmetic is that of the cast.
fn mode(cast: &Cast) -> Option<Mode> {
    let scaling = &cast.scaling;
    let is_multiplied = [scaling.quantize, scaling.dequantize] == [Operation::Multiply; 2];
    if !is_multiplied || !depends_on_amax(scaling) || cast.overflow != Overflow::Saturate {
        return None;
    }
    match cast.rounding {
        Rounding::NearestEven => Some(Mode::NEAREST_EVEN),
        Rounding::NearestAway => Some(Mode::NEAREST_AWAY),
        Rounding::TowardZero => Some(Mode::TOWARD_ZERO),
        Rounding::Stochastic => Some(Mode::STOCHASTIC),
        Rounding::NearestZero | Rounding::NearestUp | Rounding::FewBits(_) => None,
    }
}

/// True if scales follow from the largest magnitudes of blocks and of the tensor, and values from codes and one factor
/// for each block.
fn depends_on_amax(scaling: &Scaling) -> bool {
    !matches!(scaling.rule, Rule::Rms { .. }) && scaling.choice.is_none() && !scaling.needs_matrix()
}

/// Rounding and operations of a cast that is the same function of each element and its block's scales; `None` for
/// others.
pub(crate) fn elementwise(cast: &Cast) -> Option<(&'static str, [Operation; 2])> {
    let Scaling { quantize, dequantize, .. } = cast.scaling;
    let rounding = match cast.rounding {
        Rounding::NearestEven => "nearest-even",
        Rounding::NearestAway => "nearest-away",
        Rounding::TowardZero => "toward-zero",
        Rounding::NearestZero | Rounding::NearestUp | Rounding::Stochastic | Rounding::FewBits(_) => {
            return None;
        }
    };
    let is_simple = cast.transform.is_none()
        && cast.center.is_none()
        && depends_on_amax(&cast.scaling)
        && cast.overflow == Overflow::Saturate;
    is_simple.then_some((rounding, [quantize, dequantize]))
}

#[allow(clippy::too_many_arguments)]
fn by_format(
    cast: &Cast,
    grid: &Grid,
    plugin: &FormatPlugin,
    source: &[f32],
    target: &mut [f32],
    shape: Shape,
    rounding: Mode,
    key: RandomKey,
) -> PyResult<Rounded> {
    let layout = BlockGrid::new(cast.block, shape, Axis::Rows);
    let pairs = pairs(cast, grid, &block_amax(cast, source, &layout)?);
    let scales = Scales::new(&pairs, layout.blocks());
    let params = QuantParams { scales, rounding, key };
    let parts = parts::map(source, target, |first, source, target| {
        plugin.fake_quant(source, target, &params.skip(first as u64), &mut [])
    });
    let mut stats = QuantStats::default();
    parts.map_err(exception)?.iter().for_each(|part| stats.merge(part));
    Ok(Rounded { stats, scale: scales.single().map(|[encode, _]| encode) })
}

/// As [`by_format`], by way of scaled elements and codes.
fn by_halves(
    cast: &Cast,
    grid: &Grid,
    plugin: &FormatPlugin,
    source: &[f32],
    target: &mut [f32],
    shape: Shape,
    key: RandomKey,
) -> PyResult<Rounded> {
    // The rows are transformed already.
    let cast = Cast { transform: None, ..*cast };
    let prepared = cast.prepare(grid, source, shape, Axis::Rows, &key).map_err(|error| refusal(&error))?;
    let at_one = QuantParams { key, ..QuantParams::IDENTITY };
    let parts = parts::map(prepared.scaled(), target, |first, scaled, target| {
        plugin.fake_quant(scaled, target, &at_one.skip(first as u64), &mut [])
    });
    let overflow = parts.map_err(exception)?.iter().map(|part| part.overflow).sum();
    let codes = cast.codes(grid, prepared.scaled(), &key, |scaled, rounding| {
        let mut codes = vec![0; scaled.len()];
        let params = QuantParams { rounding, ..at_one };
        parts::map(scaled, &mut codes, |first, scaled, codes| {
            plugin.encode_into(scaled, codes, &params.skip(first as u64))
        })
        .map(|_| codes)
    });
    let applied = prepared.finish(grid, codes.map_err(exception)?).map_err(|error| refusal(&error))?;
    target.copy_from_slice(&applied.values);
    let mut stats = QuantStats { overflow, ..QuantStats::default() };
    source.iter().zip(target).for_each(|(x, value)| stats.add(*x, *value, false));
    Ok(Rounded { stats, scale: None })
}

/// The largest finite magnitude of each block, in the order of the scales; NaN if an element that is not finite poisons
/// the block.
fn block_amax(cast: &Cast, source: &[f32], layout: &BlockGrid) -> PyResult<Vec<f32>> {
    let mut amax = vec![0.0; layout.count()];
    if cast.block == altgrad_casts::Block::None {
        return Ok(amax);
    }
    let poisons = cast.scaling.nonfinite == NonFinite::Poison && cast.scaling.amax.is_none();
    let found = parts::map(source, &mut vec![(); source.len()], |first, part, _| {
        Ok::<_, PyErr>(runs(layout, first, part.len(), |range| magnitude(&part[range], poisons)))
    })?;
    for (block, value) in found.into_iter().flatten() {
        let most: f32 = amax[block];
        amax[block] = if most.is_nan() || value.is_nan() { f32::NAN } else { most.max(value) };
    }
    Ok(amax)
}

/// Calls `of` with the ranges of `elements` consecutive elements from the `first` on that lie in one block and one row;
/// results with the block.
fn runs<T>(
    layout: &BlockGrid,
    first: usize,
    elements: usize,
    of: impl Fn(std::ops::Range<usize>) -> T,
) -> Vec<(usize, T)> {
    let (columns, [rows_of, columns_of]) = (layout.shape.columns, layout.block);
    if layout.count() == 1 {
        return vec![(0, of(0..elements))];
    }
    let per_row = layout.counts()[1];
    let mut found = Vec::with_capacity(elements / columns_of + 2);
    let (mut row, mut column, mut next) = (first / columns, first % columns, 0);
    while next < elements {
        let block = row / rows_of * per_row;
        let end = (next + columns - column).min(elements);
        let mut index = column / columns_of;
        let mut last = next + (columns_of - column % columns_of);
        while next < end {
            found.push((block + index, of(next..last.min(end))));
            (next, last, index) = (last.min(end), last + columns_of, index + 1);
        }
        (row, column) = (row + 1, 0);
    }
    found
}

/// Largest finite magnitude; NaN if `poisons` and an element is not finite.
fn magnitude(values: &[f32], poisons: bool) -> f32 {
    const LANES: usize = 16;
    let add = |most: &mut [f32; LANES], any: &mut [f32; LANES], lane: usize, x: f32| {
        let x = x.abs();
        // False for NaN too.
        most[lane] = most[lane].max(if x < f32::INFINITY { x } else { 0.0 });
        // NaN for infinity and NaN.
        any[lane] += x * 0.0;
    };
    let (mut most, mut any) = ([0.0; LANES], [0.0; LANES]);
    let (groups, rest) = values.as_chunks::<LANES>();
    for group in groups {
        (0..LANES).for_each(|lane| add(&mut most, &mut any, lane, group[lane]));
    }
    rest.iter().enumerate().for_each(|(lane, x)| add(&mut most, &mut any, lane, *x));
    if poisons && any.into_iter().sum::<f32>().is_nan() {
        return f32::NAN;
    }
    most.into_iter().fold(0.0, f32::max)
}

/// The encode and decode scale of each block.
fn pairs(cast: &Cast, grid: &Grid, amax: &[f32]) -> Vec<[f32; 2]> {
    if cast.block == altgrad_casts::Block::None {
        return vec![[1.0; 2]; amax.len()];
    }
    let block = |amax: f32| {
        let mut block = BlockStatistics::of_amax(if amax.is_nan() { 0.0 } else { amax });
        block.nonfinite = amax.is_nan();
        block
    };
    let (scaling, range) = (&cast.scaling, &cast.scaling.range(grid.range()));
    let is_poisoned = amax.iter().any(|amax| amax.is_nan());
    let most = amax.iter().copied().fold(0.0, f32::max);
    let tensor = scaling.tensor_scale(range, &[block(if is_poisoned { f32::NAN } else { most })]);
    amax.iter().map(|&amax| scaling.pair(range, &block(amax), tensor.as_ref())).collect()
}
