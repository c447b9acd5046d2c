//! Fake quantization and dynamic scales on the CPU, by the function of a format's plugin.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{Blocks, QuantParams, QuantStats as FormatStats, Scales};
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
    let Some(histogram) = &params.histogram else {
        return plugin.fake_quant(src, dst, quant_params, &mut []);
    };
    let mut counters = histogram.counters();
    let stats = plugin.fake_quant(src, dst, quant_params, &mut counters)?;
    histogram.add_codes(&counters);
    Ok(stats)
}

/// The scales of a tensor of `elements` whose groups are consecutive elements.
pub(super) fn consecutive(scales: &[[f32; 2]], elements: usize) -> Scales<'_> {
    Scales::new(scales, Blocks::consecutive((elements / scales.len()).max(1) as u64))
}

/// The scale of each group of `values`, with its inverse.
pub(super) fn dynamic_scales(values: &[f32], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let group = rule.group_len(values.len());
    if group > CHUNK {
        let amax = |values: &[f32]| values.par_chunks(CHUNK).map(scale::amax).reduce(|| 0.0, f32::max);
        return values.chunks(group).map(|values| rule.scale(amax(values))).collect();
    }
    let groups_per_task = CHUNK / group;
    let mut scales = vec![[1.0; 2]; values.len() / group];
    scales
        .par_chunks_mut(groups_per_task)
        .zip(values.par_chunks(groups_per_task * group))
        .for_each(|(scales, values)| rule.group_scales(values, group, scales));
    scales
}
