//! Fake quantization and dynamic scales on the CPU, by the function of a format's plugin.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::{BlockStatistics, Rounding as CastRounding, exceeds, overflow_codes};
use altgrad_plugin_api::{Blocks, QuantParams, QuantStats as FormatStats, Rounding, Scales, random::Words};
use parking_lot::Mutex;
use rayon::prelude::*;

use super::{
    FakeQuantParams,
    scale::{self, ScaleRule},
    stat_words,
};
use crate::tensor::cpu::zeros;

/// Elements per call of the CPU function. The number is fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 16;

/// The source and destination of rounding.
pub(super) enum Buffers<'a> {
    /// From one buffer to another of the same length.
    Apart(&'a [f32], &'a mut [f32]),
    /// In place, some at a time by way of a buffer that fits into the cache.
    InPlace(&'a mut [f32]),
}

impl Buffers<'_> {
    /// The values to be rounded.
    fn source(&self) -> &[f32] {
        match self {
            Self::Apart(src, _) => src,
            Self::InPlace(values) => values,
        }
    }

    /// Rounds in parts on all threads. `round` receives the place of a part, its source and its destination. Adds to
    /// the histogram of the parameters, if there is one. Returns the words of the statistics as bit patterns. If a part
    /// fails, all values are NaN and the format has the fault.
    fn round(
        self,
        params: &FakeQuantParams,
        round: impl Fn(usize, &[f32], &mut [f32]) -> Result<FormatStats, Diagnostic> + Sync,
    ) -> Vec<f32> {
        if let Some(histogram) = &params.histogram {
            histogram.add_values(self.source());
        }
        let (src, dst) = match self {
            Self::Apart(src, dst) => (Some(src), dst),
            Self::InPlace(values) => (None, values),
        };
        let part = |(index, dst): (usize, &mut [f32])| {
            let first = index * CHUNK;
            match src {
                Some(src) => round(first, &src[first..first + dst.len()], dst),
                None => {
                    let source = dst.to_vec();
                    round(first, &source, dst)
                }
            }
        };
        let parts = dst.par_chunks_mut(CHUNK).enumerate().map(part).collect();
        merge(parts, dst, params)
    }
}

/// Rounds consecutive elements by each of `scales` with its inverse. Returns the words of the statistics.
pub(super) fn fake_quant(buffers: Buffers<'_>, scales: &[[f32; 2]], params: &FakeQuantParams) -> Vec<f32> {
    let scales = consecutive(scales, buffers.source().len());
    let whole = QuantParams { scales, rounding: params.rounding, key: params.key };
    buffers.round(params, |first, src, dst| fake_quant_part(src, dst, &whole.skip(first as u64), params))
}

/// As [`fake_quant`] at the scales that `rule` gives, which are returned first. A part whose groups are independent of
/// other parts is rounded while it is in the cache.
pub(super) fn fake_quant_dynamic(
    buffers: Buffers<'_>,
    rule: &ScaleRule,
    params: &FakeQuantParams,
) -> (Vec<[f32; 2]>, Vec<f32>) {
    let elements = buffers.source().len();
    let group = rule.group_len(elements);
    if rule.scaling.tensor || !CHUNK.is_multiple_of(group) {
        let scales = dynamic_scales(buffers.source(), rule);
        let words = fake_quant(buffers, &scales, params);
        return (scales, words);
    }
    let scales: Vec<Mutex<Vec<[f32; 2]>>> = (0..elements.div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
    let words = buffers.round(params, |first, src, dst| {
        let mut own = vec![[1.0; 2]; src.len() / group];
        rule.group_scales(src, group, &mut own);
        let whole = QuantParams { scales: Scales::ONE, rounding: params.rounding, key: params.key };
        let blocks = Scales::new(&own, Blocks::consecutive(group as u64));
        let part = QuantParams { scales: blocks, ..whole.skip(first as u64) };
        let stats = fake_quant_part(src, dst, &part, params);
        *scales[first / CHUNK].lock() = own;
        stats
    });
    (scales.into_iter().flat_map(Mutex::into_inner).collect(), words)
}

/// The words of the statistics of all parts. Completes the histogram; makes all values NaN if a part failed.
fn merge(parts: Vec<Result<FormatStats, Diagnostic>>, dst: &mut [f32], params: &FakeQuantParams) -> Vec<f32> {
    let format = &params.format;
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
    stat_words::to_words(&stats).into_iter().map(f32::from_bits).collect()
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
    let stats = if params.arithmetic.is_the_formats() {
        plugin.fake_quant(src, dst, quant_params, &mut counters)?
    } else {
        by_other_arithmetic(src, dst, quant_params, params, &mut counters)?
    };
    if let Some(histogram) = &params.histogram {
        histogram.add_codes(&counters);
    }
    Ok(stats)
}

/// As the plugin's call, by another arithmetic. The format rounds scaled elements at scale 1.
fn by_other_arithmetic(
    src: &[f32],
    dst: &mut [f32],
    quant_params: &QuantParams<'_>,
    params: &FakeQuantParams,
    counters: &mut [u64],
) -> Result<FormatStats, Diagnostic> {
    let (plugin, arithmetic) = (params.format.plugin(), params.arithmetic);
    let mut scaled = src.to_vec();
    for (run, pair) in quant_params.scales.runs(src.len()) {
        arithmetic.quantize.quantize_all(&mut scaled[run], pair);
    }
    let unscaled = QuantParams { scales: Scales::ONE.skip(quant_params.scales.first), ..*quant_params };
    let FormatStats { overflow, .. } = plugin.fake_quant(&scaled, dst, &unscaled, &mut [])?;
    let toward_zero = QuantParams { rounding: Rounding::TOWARD_ZERO, ..unscaled };
    let values = params.format.values();
    match arithmetic.own {
        Some(CastRounding::FewBits(few)) => {
            for ((y, x), word) in dst.iter_mut().zip(&scaled).zip(Words::new(&quant_params.key)) {
                *y = few.round(values, *x, *y, word);
            }
        }
        Some(ties) => {
            let mut inner = vec![0.0; dst.len()];
            plugin.fake_quant(&scaled, &mut inner, &toward_zero, &mut [])?;
            for ((y, inner), x) in dst.iter_mut().zip(inner).zip(&scaled) {
                if ties.is_inner(*x, [*y, inner]) {
                    *y = inner;
                }
            }
        }
        None => {}
    }
    if let (Some(rounding), Some(codes)) = (arithmetic.overflow, overflow_codes(values)) {
        let [positive, negative] = codes.map(|code| values.decode(code));
        for ((y, x), word) in dst.iter_mut().zip(&scaled).zip(Words::new(&quant_params.key)) {
            if exceeds(rounding, values, *x, word) {
                *y = if *x > 0.0 { positive } else { negative };
            }
        }
    }
    if !counters.is_empty() {
        // Values on the grid are rounded to themselves.
        scaled.copy_from_slice(dst);
        plugin.fake_quant(&scaled, dst, &toward_zero, counters)?;
    }
    for (run, pair) in quant_params.scales.runs(src.len()) {
        arithmetic.dequantize.dequantize_all(&mut dst[run], pair);
    }
    let mut stats = FormatStats::default();
    stats.add_all(src, dst, dst, [f32::MIN, f32::MAX]);
    Ok(FormatStats { overflow, ..stats })
}

/// The scales of a tensor of `elements` whose groups are consecutive elements.
pub(super) fn consecutive(scales: &[[f32; 2]], elements: usize) -> Scales<'_> {
    Scales::new(scales, Blocks::consecutive((elements / scales.len()).max(1) as u64))
}

/// The scale of each group of `values`, with its inverse.
pub(super) fn dynamic_scales(values: &[f32], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let group = rule.group_len(values.len());
    if group > CHUNK && rule.scaling.needs_amax_only() {
        let amax = |values: &[f32]| {
            scale::magnitude(values.par_chunks(CHUNK).map(scale::amax).reduce(|| 0.0, f32::max), values)
        };
        let blocks: Vec<_> =
            values.chunks(group).map(|group| BlockStatistics::of_amax(amax(group))).collect();
        return pairs(&blocks, rule);
    }
    let groups_per_task = (CHUNK / group).max(1);
    let groups = values.par_chunks(groups_per_task * group);
    if rule.scaling.choice.is_some() {
        let parts = groups.clone();
        let blocks: Vec<_> =
            parts.flat_map_iter(|part| rule.statistics(part, group, part.len() / group)).collect();
        let tensor = rule.scaling.tensor_scale(&rule.range, &blocks);
        let mut scales = vec![[1.0; 2]; blocks.len()];
        let parts =
            scales.par_chunks_mut(groups_per_task).zip(blocks.par_chunks(groups_per_task)).zip(groups);
        parts.for_each(|((scales, blocks), values)| {
            rule.choose(values, group, blocks, tensor.as_ref(), scales)
        });
        return scales;
    }
    if rule.scaling.tensor && rule.scaling.needs_amax_only() {
        return two_level_scales(values, group, rule);
    }
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

/// The scales of groups under a scale of the tensor, which follow from their largest magnitudes.
fn two_level_scales(values: &[f32], group: usize, rule: &ScaleRule) -> Vec<[f32; 2]> {
    let groups = (CHUNK / group).max(1);
    let mut amax = zeros(values.len() / group);
    let parts = amax.par_chunks_mut(groups).zip(values.par_chunks(groups * group));
    parts.for_each(|(amax, values)| scale::group_amax(values, group, amax));
    let largest = amax.iter().copied().filter(|amax| amax.is_finite()).fold(0.0, f32::max);
    let tensor = rule.scaling.tensor_scale_of_amax(&rule.range, largest);
    let mut scales = vec![[1.0; 2]; amax.len()];
    let parts = scales.par_chunks_mut(groups).zip(amax.par_chunks(groups));
    parts.for_each(|(scales, amax)| rule.scaling.pairs(&rule.range, amax, tensor.as_ref(), scales));
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
