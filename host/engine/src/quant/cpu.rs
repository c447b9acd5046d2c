//! Fake quantization and dynamic scales on the CPU, by the function of a format's plugin.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{BlockStatistics, Operation};
use altgrad_plugin_api::{Blocks, QuantParams, QuantStats as FormatStats, Rounding, Scales};
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
    let scales = consecutive(scales, src.len());
    let whole = QuantParams { scales, rounding: params.rounding, key: params.key };
    let parts: Vec<Result<FormatStats, Diagnostic>> = src
        .par_chunks(CHUNK)
        .zip(dst.par_chunks_mut(CHUNK))
        .enumerate()
        .map(|(part, (src, dst))| fake_quant_part(src, dst, &whole.skip((part * CHUNK) as u64), params))
        .collect();
    if let Some(histogram) = params.histogram.as_ref().filter(|_| params.padding_elements > 0) {
        histogram.subtract_zeros(params.padding_elements, format.zero_code());
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

/// One call of the plugin, with the histogram of its codes if one is collected.
fn fake_quant_part(
    src: &[f32],
    dst: &mut [f32],
    quant_params: &QuantParams<'_>,
    params: &FakeQuantParams,
) -> Result<FormatStats, Diagnostic> {
    let plugin = params.format.plugin();
    let mut counters = params.histogram.as_ref().map_or(Vec::new(), |histogram| histogram.counters());
    let stats = plugin.fake_quant(src, dst, quant_params, &mut counters)?;
    if let Some(histogram) = &params.histogram {
        histogram.add_codes(&counters);
    }
    if !params.arithmetic.is_the_formats() {
        recompute(src, dst, quant_params, params)?;
    }
    Ok(stats)
}

/// Replaces what the format made of `src` by what other arithmetic makes of it. The format rounds scaled elements at scale 1.
fn recompute(
    src: &[f32],
    dst: &mut [f32],
    quant_params: &QuantParams<'_>,
    params: &FakeQuantParams,
) -> Result<(), Diagnostic> {
    let (plugin, arithmetic) = (params.format.plugin(), params.arithmetic);
    let mut scaled = src.to_vec();
    for (run, [scale, inverse]) in quant_params.scales.runs(src.len()) {
        match arithmetic.quantize {
            Operation::Multiply => scaled[run].iter_mut().for_each(|x| *x *= scale),
            Operation::Divide => scaled[run].iter_mut().for_each(|x| *x /= inverse),
        }
    }
    let unscaled = QuantParams { scales: Scales::ONE.skip(quant_params.scales.first), ..*quant_params };
    plugin.fake_quant(&scaled, dst, &unscaled, &mut [])?;
    if arithmetic.ties_toward_zero {
        let mut inner = vec![0.0; dst.len()];
        let toward_zero = QuantParams { rounding: Rounding::TOWARD_ZERO, ..unscaled };
        plugin.fake_quant(&scaled, &mut inner, &toward_zero, &mut [])?;
        for ((y, inner), x) in dst.iter_mut().zip(inner).zip(&scaled) {
            if *y != inner && 2.0 * f64::from(*x) == f64::from(*y) + f64::from(inner) {
                *y = inner;
            }
        }
    }
    for (run, [scale, inverse]) in quant_params.scales.runs(src.len()) {
        match arithmetic.dequantize {
            Operation::Multiply => dst[run].iter_mut().for_each(|y| *y *= inverse),
            Operation::Divide => dst[run].iter_mut().for_each(|y| *y /= scale),
        }
    }
    Ok(())
}

/// The scales of a tensor of `elements` whose groups are consecutive elements.
pub(super) fn consecutive(scales: &[[f32; 2]], elements: usize) -> Scales<'_> {
    Scales::new(scales, Blocks::consecutive((elements / scales.len()).max(1) as u64))
}

/// The scale of each group of `values`, with its inverse.
pub(super) fn dynamic_scales(values: &[f32], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let group = rule.group_len(values.len());
    if group > CHUNK && rule.scaling.needs_amax_only() {
        let amax = |values: &[f32]| values.par_chunks(CHUNK).map(scale::amax).reduce(|| 0.0, f32::max);
        let blocks: Vec<_> =
            values.chunks(group).map(|group| BlockStatistics::of_amax(amax(group))).collect();
        return pairs(&blocks, rule);
    }
    let groups_per_task = (CHUNK / group).max(1);
    let groups = values.par_chunks(groups_per_task * group);
    if rule.scaling.tensor {
        let blocks: Vec<_> =
            groups.flat_map_iter(|part| rule.statistics(part, group, part.len() / group)).collect();
        return pairs(&blocks, rule);
    }
    let mut scales = vec![[1.0; 2]; values.len() / group];
    scales
        .par_chunks_mut(groups_per_task)
        .zip(groups)
        .for_each(|(scales, values)| rule.group_scales(values, group, scales));
    scales
}

/// The scale of each block of a tensor, with its inverse.
fn pairs(blocks: &[BlockStatistics], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let tensor = rule.scaling.tensor_scale(&rule.range, blocks);
    let mut scales = vec![[1.0; 2]; blocks.len()];
    let parts = scales.par_chunks_mut(CHUNK / 16).zip(blocks.par_chunks(CHUNK / 16));
    parts.for_each(|(scales, blocks)| {
        for (pair, block) in scales.iter_mut().zip(blocks) {
            *pair = rule.scaling.pair(&rule.range, block, tensor.as_ref());
        }
    });
    scales
}
