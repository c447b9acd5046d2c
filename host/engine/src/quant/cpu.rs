//! Fake quantization and dynamic scales on the CPU, by the function of a format's plugin.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{QuantParams, QuantStats as FormatStats, RandomKey};
use rayon::prelude::*;

use super::{
    FakeQuantParams,
    scale::{self, ScaleRule},
    stat_words,
};
/// Elements of a call of the CPU function. Fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 16;

/// Rounds `src` in parts on all threads, consecutive elements by each of `scales` with its inverse. Returns the values and
/// the words of the statistics as bit patterns. Adds to the histogram of the parameters, if there is one. If a part fails,
/// all values are NaN and the format has the fault.
pub(super) fn fake_quant(src: &[f32], scales: &[[f32; 2]], params: &FakeQuantParams) -> (Vec<f32>, Vec<f32>) {
    let format = &params.format;
    if let Some(histogram) = &params.histogram {
        histogram.add_values(src);
    }
    let mut dst = vec![f32::NAN; src.len()];
    let group = (src.len() / scales.len()).max(1);
    let parts: Vec<Result<FormatStats, Diagnostic>> = src
        .par_chunks(group)
        .zip(dst.par_chunks_mut(group))
        .zip(scales)
        .enumerate()
        .with_min_len((CHUNK / group).max(1))
        .map(|(index, ((src, dst), scales))| fake_quant_group(src, dst, *scales, index * group, params))
        .collect();
    if let Some(histogram) = params.histogram.as_ref().filter(|_| params.padding_elements > 0) {
        let zero = format.plugin().encode(&[0.0], &QuantParams::IDENTITY);
        histogram.subtract_zeros(params.padding_elements, zero.map_or(0, |codes| usize::from(codes[0])));
    }
    let mut stats = FormatStats::default();
    for part in parts {
        match part {
            Ok(part) => stats.merge(&part),
            Err(fault) => {
                format.set_fault(fault);
                dst.fill(f32::NAN);
            }
        }
    }
    (dst, stat_words::to_words(&stats).into_iter().map(f32::from_bits).collect())
}

/// Rounds the elements from `first` on, which share a scale.
fn fake_quant_group(
    src: &[f32],
    dst: &mut [f32],
    [scale, inv_scale]: [f32; 2],
    first: usize,
    params: &FakeQuantParams,
) -> Result<FormatStats, Diagnostic> {
    let plugin = params.format.plugin();
    let chunk = |(index, (src, dst)): (usize, (&[f32], &mut [f32]))| {
        let offset = params.key.offset + (first + index * CHUNK) as u64;
        let key = RandomKey { offset, ..params.key };
        let quant_params = QuantParams { scale, inv_scale, rounding: params.rounding, key };
        let Some(histogram) = &params.histogram else {
            return plugin.fake_quant(src, dst, &quant_params, &mut []);
        };
        let mut counters = histogram.counters();
        let stats = plugin.fake_quant(src, dst, &quant_params, &mut counters)?;
        histogram.add_codes(&counters);
        Ok(stats)
    };
    if src.len() <= CHUNK {
        return chunk((0, (src, dst)));
    }
    let chunks: Result<Vec<FormatStats>, Diagnostic> =
        src.par_chunks(CHUNK).zip(dst.par_chunks_mut(CHUNK)).enumerate().map(chunk).collect();
    let mut stats = FormatStats::default();
    chunks?.iter().for_each(|chunk| stats.merge(chunk));
    Ok(stats)
}

/// The scale of each group of `values`, with its inverse.
pub(super) fn dynamic_scales(values: &[f32], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let group = rule.group_len(values.len());
    let largest = |values: &[f32]| {
        if values.len() <= CHUNK {
            return scale::amax(values);
        }
        values.par_chunks(CHUNK).map(scale::amax).reduce(|| 0.0, f32::max)
    };
    let groups = values.par_chunks(group).with_min_len((CHUNK / group).max(1));
    groups.map(|group| rule.scale(largest(group))).collect()
}
