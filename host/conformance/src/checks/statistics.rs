//! The statistics of a call, recomputed from its input and output.

use altgrad_plugin_api::{QuantParams, QuantStats, Scales};

use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{mode_name, params, same_values},
    inputs::{mixture, scales},
    oracle::Oracle,
    subject::said,
};

/// Largest relative error of a sum.
const TOLERANCE: f64 = 1e-6;

/// The statistics of a call, from its input and output.
pub(super) fn recomputed(oracle: &Oracle, src: &[f32], dst: &[f32], scales: &Scales<'_>) -> QuantStats {
    let mut stats = QuantStats::default();
    for (i, (&x, &y)) in src.iter().zip(dst).enumerate() {
        let [scale, _] = scales.of(i as u64);
        stats.overflow += u64::from(oracle.overflows(x * scale));
        stats.underflow += u64::from(x != 0.0 && y == 0.0);
        stats.nan += u64::from(x.is_nan());
        stats.nonzero += u64::from(x != 0.0);
        if x.is_finite() {
            stats.amax = stats.amax.max(x.abs());
            let (x, y) = (f64::from(x), f64::from(y));
            stats.sum_x2 += x * x;
            stats.sum_err2 += (y - x) * (y - x);
            stats.sum_x_xhat += x * y;
        }
    }
    stats
}

/// True if two sums agree within their tolerance; infinities must be equal.
fn close(got: f64, expected: f64) -> bool {
    got == expected || (got - expected).abs() <= TOLERANCE * expected.abs()
}

/// Runs `look` on the statistics of mixtures: those of the call, the recomputed ones, and the place.
fn on_mixtures(
    subject: &Subject,
    look: impl Fn(&QuantStats, &QuantStats) -> Result<(), String>,
) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    for rounding in instance.modes()? {
        for (i, scale) in scales(&oracle).into_iter().enumerate() {
            let mixture = mixture(&oracle, scale, 31 + i as u64);
            // The whole, nothing, and each value alone: an error of one shows in small sums.
            let parts = [&mixture[..], &mixture[..0]].into_iter().chain(mixture.chunks(1).step_by(97));
            for src in parts {
                let params = params(scale, rounding);
                let (dst, stats) = instance.quantized(src, &params.lend())?;
                let expected = recomputed(&oracle, src, &dst, &params.lend().scales);
                look(&stats, &expected).map_err(|fault| {
                    let what = if src.len() == 1 {
                        format!("{:e}", src[0])
                    } else {
                        format!("{} elements", src.len())
                    };
                    format!("{} of {what} with scale {scale}: {fault}", mode_name(rounding))
                })?;
            }
        }
    }
    Ok(Verdict::Passed)
}

/// Counts and amax are exact.
pub(super) fn same_counts(got: &QuantStats, expected: &QuantStats) -> Result<(), String> {
    let counts = |stats: &QuantStats| {
        [
            ("overflow", stats.overflow),
            ("underflow", stats.underflow),
            ("nan", stats.nan),
            ("nonzero", stats.nonzero),
            ("the bits of amax", u64::from(stats.amax.to_bits())),
        ]
    };
    for ((name, got), (_, expected)) in counts(got).into_iter().zip(counts(expected)) {
        if got != expected {
            return Err(format!("{name} is {got}, expected {expected}"));
        }
    }
    Ok(())
}

/// Sums are right within their tolerance.
pub(super) fn same_sums(got: &QuantStats, expected: &QuantStats) -> Result<(), String> {
    let sums = |stats: &QuantStats| {
        [("sum_x2", stats.sum_x2), ("sum_err2", stats.sum_err2), ("sum_x_xhat", stats.sum_x_xhat)]
    };
    for ((name, got), (_, expected)) in sums(got).into_iter().zip(sums(expected)) {
        if !close(got, expected) {
            return Err(format!("{name} is {got:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

pub(crate) fn statistics_counts(subject: &Subject) -> CheckResult {
    on_mixtures(subject, same_counts)
}

pub(crate) fn statistics_sums(subject: &Subject) -> CheckResult {
    on_mixtures(subject, same_sums)
}

pub(crate) fn histogram(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    for rounding in instance.modes()? {
        for scale in scales(&oracle) {
            let src = mixture(&oracle, scale, 41);
            check_histogram(&instance, &oracle, &src, &params(scale, rounding).lend())
                .map_err(|fault| format!("{} with scale {scale}: {fault}", mode_name(rounding)))?;
        }
    }
    Ok(Verdict::Passed)
}

fn check_histogram(
    instance: &Instance,
    oracle: &Oracle,
    src: &[f32],
    params: &QuantParams<'_>,
) -> Result<(), String> {
    let (plain, plain_stats) = instance.quantized(src, params)?;
    // Counters are added to, so they do not begin at zero here.
    let mut got = vec![1u64; oracle.by_code().len()];
    let mut dst = vec![0.0; src.len()];
    let stats = instance
        .fake_quant(src, &mut dst, params, &mut got)
        .map_err(|error| said("fake_quant with a histogram", &error))?;
    same_values("the result with a histogram", &dst, &plain)?;
    if stats != plain_stats {
        return Err(format!("the histogram changes the statistics: {stats:?}, without it {plain_stats:?}"));
    }
    let mut expected = vec![1u64; oracle.by_code().len()];
    for code in codes_of(instance, src, params)? {
        let counter = expected.get_mut(usize::from(code));
        *counter.ok_or_else(|| format!("encode makes {code:#x}, which is beyond the last code"))? += 1;
    }
    let differs = got.iter().zip(&expected).position(|(got, expected)| got != expected);
    differs.map_or(Ok(()), |code| {
        let (got, expected) = (got[code] - 1, expected[code] - 1);
        Err(format!("code {code:#x} is counted {got} times, encode makes it {expected} times"))
    })
}

/// The codes of a slice, NaN left out where they have none. Each element keeps its index, and so its random bits.
fn codes_of(instance: &Instance, src: &[f32], params: &QuantParams<'_>) -> Result<Vec<u16>, String> {
    let without: Vec<f32> = src.iter().map(|&x| if x.is_nan() { 0.0 } else { x }).collect();
    let mut codes = instance.encoded(&without, params)?;
    let nan_code = instance.encoded(&[f32::NAN], params).ok().map(|code| code[0]);
    let mut kept = Vec::with_capacity(codes.len());
    for (&x, code) in src.iter().zip(codes.drain(..)) {
        if !x.is_nan() {
            kept.push(code);
        } else if nan_code.is_some() {
            // Its sign may have a code of its own.
            kept.push(instance.encoded(&[x], params)?[0]);
        }
    }
    Ok(kept)
}
