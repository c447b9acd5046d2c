//! Rounding, mode by mode, against the slow definition.

use altgrad_plugin_api::{ErrorKind, QuantParams, Rounding};

use crate::{
    CheckResult, Subject, Verdict,
    compare::{check_rounding, lacks, mode_name, params, shown},
    inputs::{NANS, bit_patterns, edges, in_range, scales, unscaled},
    subject::{UNWRITTEN, said},
};

/// Random bit patterns a mode is tried on.
const PATTERNS: usize = 1_000_000;
/// Values within the range a mode is tried on, a scale.
const IN_RANGE: usize = 100_000;
/// Edges a mode is tried on at each scale but one, about: all of a format of up to 12 bits.
const SCALED_EDGES: usize = 1 << 15;
/// The last of the edges: the ends of the format's range and of f32's.
const ENDS: usize = 42;

pub(crate) fn nearest_even_edges(subject: &Subject) -> CheckResult {
    on_edges(subject, Rounding::NEAREST_EVEN)
}

pub(crate) fn nearest_even_random(subject: &Subject) -> CheckResult {
    on_random(subject, Rounding::NEAREST_EVEN)
}

pub(crate) fn nearest_away_edges(subject: &Subject) -> CheckResult {
    on_edges(subject, Rounding::NEAREST_AWAY)
}

pub(crate) fn nearest_away_random(subject: &Subject) -> CheckResult {
    on_random(subject, Rounding::NEAREST_AWAY)
}

pub(crate) fn toward_zero_edges(subject: &Subject) -> CheckResult {
    on_edges(subject, Rounding::TOWARD_ZERO)
}

pub(crate) fn toward_zero_random(subject: &Subject) -> CheckResult {
    on_random(subject, Rounding::TOWARD_ZERO)
}

pub(crate) fn stochastic_edges(subject: &Subject) -> CheckResult {
    on_edges(subject, Rounding::STOCHASTIC)
}

fn on_edges(subject: &Subject, rounding: Rounding) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    if !instance.supports(rounding)? {
        return lacks(rounding);
    }
    let all = edges(&oracle);
    for (i, scale) in scales(&oracle).into_iter().enumerate() {
        let stored = if scale == 1.0 { all.clone() } else { thinned(&all, i) };
        check_rounding(&instance, &oracle, &unscaled(&stored, scale), &params(scale, rounding).lend())?;
    }
    Ok(Verdict::Passed)
}

/// Every nth edge from the `first` on, and those at the ends. An n that shares no divisor with the six edges of a value
/// takes all kinds of them.
fn thinned(edges: &[f32], first: usize) -> Vec<f32> {
    let least = edges.len().div_ceil(SCALED_EDGES);
    let step = (least..).find(|step| step % 2 != 0 && step % 3 != 0).unwrap_or(1);
    let (inner, ends) = edges.split_at(edges.len().saturating_sub(ENDS));
    inner.iter().skip(first % step).step_by(step).chain(ends).copied().collect()
}

fn on_random(subject: &Subject, rounding: Rounding) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    if !instance.supports(rounding)? {
        return lacks(rounding);
    }
    check_rounding(&instance, &oracle, &bit_patterns(PATTERNS, 1), &params(1.0, rounding).lend())?;
    for (i, scale) in scales(&oracle).into_iter().enumerate() {
        let seed = 2 + i as u64;
        let src = in_range(&oracle, scale, IN_RANGE, seed);
        check_rounding(&instance, &oracle, &src, &params(scale, rounding).lend())?;
        check_rounding(&instance, &oracle, &bit_patterns(IN_RANGE, seed), &params(scale, rounding).lend())?;
    }
    Ok(Verdict::Passed)
}

/// A later host may request a mode that is unknown to this plugin: the plugin must refuse it.
pub(crate) fn unknown_rounding(subject: &Subject) -> CheckResult {
    let instance = subject.instance()?;
    for number in [Rounding::ALL.len() as u32, 77, u32::MAX] {
        let params = QuantParams { rounding: Rounding(number), ..QuantParams::IDENTITY };
        let quantized = instance.fake_quant(&[1.0], &mut [UNWRITTEN], &params, &mut []).map(drop);
        let encoded = instance.encode(&[1.0], &mut [0], &params);
        for (call, result) in [("fake_quant", quantized), ("encode", encoded)] {
            match result {
                Err(error) if error.kind == ErrorKind::UNSUPPORTED => {}
                Err(error) => {
                    let said = said(call, &error);
                    return Err(format!("mode {number}: {said}, an UNSUPPORTED error expected"));
                }
                Ok(()) => return Err(format!("{call} takes rounding mode {number}, which nobody defined")),
            }
        }
    }
    Ok(Verdict::Passed)
}

/// f32 numbers with leading zeros in their significand, of both signs, and the zeros.
fn small() -> Vec<f32> {
    let mut bits = vec![0, 1, 2, 3, 0x7f_ffff, 0x40_0000, 0x3f_ffff, 0x12_3456];
    bits.extend((0..23).map(|shift| 1u32 << shift));
    bits.iter().flat_map(|&bits| [f32::from_bits(bits), -f32::from_bits(bits)]).collect()
}

pub(crate) fn special_values(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let infinities = [f32::INFINITY, f32::NEG_INFINITY];
    for rounding in instance.modes()? {
        for scale in [1.0, 3.7, 0.3] {
            let params = params(scale, rounding);
            let params = params.lend();
            let at = format!("with scale {scale} {}", mode_name(rounding));
            let (values, stats) = instance.quantized(&NANS, &params)?;
            if let Some(i) = values.iter().position(|value| !value.is_nan()) {
                return Err(format!("{} {at} becomes {}", shown(NANS[i]), shown(values[i])));
            }
            if stats.nan != NANS.len() as u64 {
                return Err(format!("{} NaN {at} are counted as {}", NANS.len(), stats.nan));
            }
            let stats = instance.quantized(&infinities, &params)?.1;
            if stats.overflow != 2 {
                return Err(format!("both infinities {at} count as overflow {}", stats.overflow));
            }
            check_rounding(&instance, &oracle, &infinities, &params)?;
            check_rounding(&instance, &oracle, &small(), &params)?;
        }
    }
    Ok(Verdict::Passed)
}
