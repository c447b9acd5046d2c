//! Casts that need the whole matrix: means, outer blocks, microexponents, scales that are rounded at random or
//! corrected, nested scales, blocks that the format chooses. They are computed on the CPU, by [`altgrad_casts`] alone;
//! the setup refuses them on other devices.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{Axis, Cast, Centered, Shape};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{QuantParams, QuantStats as FormatStats, RandomKey, Scales};
use rayon::prelude::*;

use super::{FakeQuantParams, stat_words};

/// Elements per call of the CPU function.
const CHUNK: usize = 1 << 16;

/// Values, encode and decode scale of each block, and statistics.
pub(super) type Results<S> = (Vec<f32>, Vec<[f32; 2]>, S);

/// Casts a matrix whose blocks run along its rows. If a call fails, all values are NaN and the format has the fault.
/// Scales and statistics of a centered cast are those of its residuals. The statistics are returned as words.
pub(super) fn cast(cast: &Cast, values: &[f32], shape: Shape, params: &FakeQuantParams) -> Results<Vec<f32>> {
    let both = || {
        let Some(along) = cast.center else { return applied(cast, values, shape, params, &params.key) };
        let Centered { residuals, mean } = Centered::new(values, shape, along);
        let (mut values, pairs, stats) = applied(cast, &residuals, shape, params, &params.key)?;
        let (of_mean, key) = (Shape { rows: 1, columns: mean.len() }, Centered::key_of_mean(&params.key));
        let plain = FakeQuantParams { histogram: None, ..params.clone() };
        let (mean, ..) = applied(cast, &mean, of_mean, &plain, &key)?;
        Centered::add(&mut values, &mean, shape, along);
        Ok((values, pairs, stats))
    };
    let (values, pairs, stats) = both().unwrap_or_else(|fault| {
        params.format.set_fault(fault);
        (vec![f32::NAN; values.len()], vec![[f32::NAN; 2]], FormatStats::default())
    });
    let words = stat_words::to_words(&stats).into_iter().map(f32::from_bits).collect();
    (values, pairs, words)
}

/// The cast of one matrix, without a mean.
fn applied(
    cast: &Cast,
    values: &[f32],
    shape: Shape,
    params: &FakeQuantParams,
    key: &RandomKey,
) -> Result<Results<FormatStats>, Diagnostic> {
    let plugin = params.format.plugin();
    let grid = params.format.grid()?;
    let refused = |error: altgrad_casts::CastError| Diagnostic::run(error.to_string()).hint(error.hint());
    let prepared = cast.prepare(grid, values, shape, Axis::Rows, key).map_err(refused)?;
    let codes = match cast.codes_of_tables(grid, &prepared, key).map_err(refused)? {
        Some(codes) => codes,
        None => cast.codes(grid, prepared.scaled(), key, |scaled, rounding| {
            codes(plugin, scaled, &QuantParams { scales: Scales::ONE, rounding, key: *key })
        })?,
    };
    let pairs = prepared.pairs().collect();
    let applied = prepared.finish(grid, codes).map_err(refused)?;
    if let Some(histogram) = &params.histogram {
        histogram.add_values(values);
        let mut counters = histogram.counters();
        for (code, value) in applied.codes.iter().zip(&applied.values) {
            // Formats without NaN have a number's code in its place.
            let is_counted = grid.has_nan() || !value.is_nan();
            if let Some(counter) = counters.get_mut(usize::from(*code)).filter(|_| is_counted) {
                *counter += 1;
            }
        }
        histogram.add_codes(&counters);
    }
    let mut stats = FormatStats::default();
    stats.add_all(values, &applied.values, &applied.values, [f32::MIN, f32::MAX]);
    stats.overflow = applied.overflow as u64;
    Ok((applied.values, pairs, stats))
}

/// The codes of scaled elements, on all threads.
fn codes(plugin: &FormatPlugin, scaled: &[f32], params: &QuantParams<'_>) -> Result<Vec<u16>, Diagnostic> {
    let mut codes = vec![0; scaled.len()];
    let parts = codes.par_chunks_mut(CHUNK).zip(scaled.par_chunks(CHUNK)).enumerate();
    parts.try_for_each(|(index, (codes, scaled))| {
        plugin.encode_into(scaled, codes, &params.skip((index * CHUNK) as u64))
    })?;
    Ok(codes)
}
