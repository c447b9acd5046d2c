//! Signal to noise and shrinkage that are known for some formats (docs/numerics.md, section 10.1).
//!
//! Measured once with independent code on Gaussian tensors scaled by their largest magnitude.

use altgrad_plugin_api::{Domain, FormatSpec, Minifloat, QuantStats, Rounding};

use crate::{CheckResult, Instance, Random, Subject, Verdict, compare::params, subject::said};

/// Tensors averaged over: the noise of a linear grid follows each tensor's largest element.
const TENSORS: usize = 256;
/// Elements a tensor. The values known for E1M6 and E2M5 belong to this size: the more elements, the larger the largest
/// of them, and the coarser a linear grid (E1M6: 40.8 dB at 8192, 38.7 dB at 2^20).
const ELEMENTS: usize = 4096;
/// Tensors of each shift of the scale: enough for a decibel.
const SHIFTED_TENSORS: usize = 8;
/// Binades that the scale is moved by.
const SHIFTS: std::ops::RangeInclusive<i32> = -24..=4;
/// Codes from which on amax as the largest value is as good as any power of two, on an even grid.
const LEAST_CODES: usize = 16;
/// Decibels that the scale of a format's declared target may be from the best.
const SCALING_TOLERANCE: f64 = 3.0;
/// Decibels off.
const SQNR_TOLERANCE: f64 = 0.3;
/// Relative: the known values have two digits and vary as much with the size of the tensor.
const SHRINKAGE_TOLERANCE: f64 = 0.15;

/// The known facts of a format: bits, domain, SQNR in dB, and shrinkage.
type Law = (u32, u32, Domain, f64, Option<f64>);

const LAWS: [Law; 15] = [
    (0, 3, Domain::FIN, 16.2, None),
    (0, 7, Domain::FIN, 41.2, None),
    (1, 6, Domain::FIN, 41.2, None),
    (2, 1, Domain::FIN, 18.5, Some(-8.9e-3)),
    (2, 3, Domain::FIN, 30.9, None),
    (2, 5, Domain::FIN, 43.0, None),
    (3, 2, Domain::FIN, 25.6, None),
    (3, 4, Domain::FIN, 37.6, None),
    (4, 3, Domain::FN, 31.6, Some(-8e-4)),
    (5, 2, Domain::IEEE, 25.5, Some(-2.6e-3)),
    (5, 6, Domain::IEEE, 49.6, None),
    (5, 10, Domain::IEEE, 73.7, None),
    (6, 1, Domain::FIN, 19.7, Some(-1.05e-2)),
    (7, 0, Domain::FIN, 14.2, Some(-3.9e-2)),
    (8, 7, Domain::IEEE, 55.6, None),
];

fn law(spec: &FormatSpec) -> Option<Law> {
    let FormatSpec::Minifloat(Minifloat { exponent_bits, significand_bits, bias, domain }) = *spec else {
        return None;
    };
    let canonical = if exponent_bits <= 1 { 0 } else { (1 << (exponent_bits - 1)) - 1 };
    let known = |law: &&Law| (law.0, law.1, law.2) == (exponent_bits, significand_bits, domain);
    LAWS.iter().find(known).copied().filter(|_| bias == canonical)
}

/// The statistics of `tensors` tensors, rounded to nearest-even at the scale of the format's target.
fn measured(subject: &Subject) -> Result<Vec<QuantStats>, String> {
    let (instance, target) = instance_and_target(subject)?;
    rounded(&instance, target, TENSORS)
}

/// The format, and its target for the largest magnitude of a tensor.
fn instance_and_target(subject: &Subject) -> Result<(Instance, f32), String> {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let declared = instance.conventions()?.amax_target.into_option();
    Ok((instance, declared.unwrap_or(oracle.range().1 as f32)))
}

/// The statistics of Gaussian tensors whose largest magnitude is scaled to `target`.
fn rounded(instance: &Instance, target: f32, tensors: usize) -> Result<Vec<QuantStats>, String> {
    let mut random = Random(101);
    let tensor = |_| {
        let src: Vec<f32> = (0..ELEMENTS).map(|_| random.gaussian() as f32).collect();
        let amax = src.iter().fold(0f32, |amax, x| amax.max(x.abs()));
        Ok(instance.quantized(&src, &params(target / amax, Rounding::NEAREST_EVEN).lend())?.1)
    };
    (0..tensors).map(tensor).collect()
}

/// Mean signal to noise, dB; infinite without noise.
fn sqnr(stats: &[QuantStats]) -> f64 {
    mean(stats, |stats| 10.0 * (stats.sum_x2 / stats.sum_err2).log10())
}

fn mean(stats: &[QuantStats], of: impl Fn(&QuantStats) -> f64) -> f64 {
    stats.iter().map(of).sum::<f64>() / stats.len() as f64
}

fn known_law(subject: &Subject) -> Result<Option<Law>, String> {
    let spec = subject.instance()?.spec().map_err(|error| said("spec", &error))?;
    Ok(law(&spec))
}

pub(crate) fn sqnr_law(subject: &Subject) -> CheckResult {
    let Some((.., expected, _)) = known_law(subject)? else {
        return Ok(Verdict::Skipped("no value is known for this format".into()));
    };
    let got = sqnr(&measured(subject)?);
    if (got - expected).abs() <= SQNR_TOLERANCE {
        return Ok(Verdict::Passed);
    }
    Err(format!("SQNR is {got:.2} dB, {expected} expected within {SQNR_TOLERANCE}"))
}

pub(crate) fn scaling_law(subject: &Subject) -> CheckResult {
    let (instance, target) = instance_and_target(subject)?;
    let declares = instance.conventions()?.amax_target.is_some();
    if !declares && subject.instance_and_oracle()?.1.by_code().len() < LEAST_CODES {
        let why = format!(
            "a format of fewer than {LEAST_CODES} codes may do better where values saturate, and says nothing of it"
        );
        return Ok(Verdict::Skipped(why));
    }
    let at = |target: f32| Ok::<_, String>(sqnr(&rounded(&instance, target, SHIFTED_TENSORS)?));
    let here = at(target)?;
    let mut best = (target, here);
    for shift in SHIFTS {
        let shifted = target * 2f32.powi(shift);
        // Beyond these the scale or its inverse is no normal number.
        if (2f32.powi(-100)..2f32.powi(100)).contains(&shifted) {
            let found = at(shifted)?;
            best = if found > best.1 { (shifted, found) } else { best };
        }
    }
    if here.is_finite() && best.1 - here <= SCALING_TOLERANCE {
        return Ok(Verdict::Passed);
    }
    Err(format!(
        "SQNR is {here:.1} dB with amax scaled to {target:e}, and {:.1} dB with {:e}: declare that as `amax_target`",
        best.1, best.0
    ))
}

pub(crate) fn shrinkage_law(subject: &Subject) -> CheckResult {
    let Some((.., Some(expected))) = known_law(subject)? else {
        return Ok(Verdict::Skipped("no value is known for this format".into()));
    };
    let got = mean(&measured(subject)?, |stats| stats.sum_x_xhat / stats.sum_x2 - 1.0);
    if (got - expected).abs() <= SHRINKAGE_TOLERANCE * expected.abs() {
        return Ok(Verdict::Passed);
    }
    Err(format!("shrinkage is {got:.3e}, {expected:.3e} expected"))
}
