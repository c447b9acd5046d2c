//! Properties of rounding that need no definition to hold it against.

use altgrad_plugin_api::Rounding;

use crate::{
    CheckResult, Subject, Verdict,
    compare::{mode_name, params, same, shown},
    inputs::{bit_patterns, edges, in_range, unscaled},
    oracle::Oracle,
};

const SCALES: [f32; 2] = [1.0, 3.7];

/// Edges and random values, ascending, no NaN.
fn ascending(oracle: &Oracle, scale: f32) -> Vec<f32> {
    let mut src = unscaled(&edges(oracle), scale);
    src.extend(in_range(oracle, scale, 50_000, 21));
    src.extend(bit_patterns(50_000, 22));
    src.sort_by(f32::total_cmp);
    src
}

pub(crate) fn idempotence(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    for rounding in instance.modes()? {
        // Powers of two: with others the product with the inverse need not come back.
        for scale in [1.0, 0.25] {
            let params = params(scale, rounding);
            let params = params.lend();
            let (once, _) = instance.quantized(&ascending(&oracle, scale), &params)?;
            let (twice, _) = instance.quantized(&once, &params)?;
            if let Some(i) = (0..once.len()).find(|&i| !same(once[i], twice[i])) {
                let (mode, once, twice) = (mode_name(rounding), shown(once[i]), shown(twice[i]));
                return Err(format!("{mode} with scale {scale} takes its own result {once} to {twice}"));
            }
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn monotonicity(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    for rounding in instance.deterministic_modes()? {
        for scale in SCALES {
            let src = ascending(&oracle, scale);
            let (values, _) = instance.quantized(&src, &params(scale, rounding).lend())?;
            if let Some(i) = (1..src.len()).find(|&i| values[i - 1] > values[i] || values[i].is_nan()) {
                let pair = |i: usize| format!("{} to {}", shown(src[i]), shown(values[i]));
                let mode = mode_name(rounding);
                return Err(format!("{mode} with scale {scale} takes {} but {}", pair(i - 1), pair(i)));
            }
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn sign_symmetry(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    if !oracle.symmetric() {
        return Ok(Verdict::Skipped("the values of the format are not symmetric about zero".into()));
    }
    for rounding in instance.deterministic_modes()? {
        for scale in SCALES {
            let src = ascending(&oracle, scale);
            let negated: Vec<f32> = src.iter().map(|x| -x).collect();
            let params = params(scale, rounding);
            let params = params.lend();
            let (values, _) = instance.quantized(&src, &params)?;
            let (mirrored, _) = instance.quantized(&negated, &params)?;
            let differs = |i: &usize| {
                !Oracle::allows([-values[*i]; 2], mirrored[*i]) && mirrors(&oracle, src[*i] * scale, rounding)
            };
            if let Some(i) = (0..src.len()).find(differs) {
                let (mode, x) = (mode_name(rounding), shown(src[i]));
                let (plus, minus) = (shown(values[i]), shown(mirrored[i]));
                return Err(format!(
                    "{mode} with scale {scale} takes {x} to {plus}, its negative to {minus}"
                ));
            }
        }
    }
    Ok(Verdict::Passed)
}

/// True if the definition leaves no choice for `x` and its negative, and mirrors their results. The tie of a table
/// without zero, for example, has one result for both signs, and so may have a declared threshold.
fn mirrors(oracle: &Oracle, x: f32, rounding: Rounding) -> bool {
    let [plus, minus] = [x, -x].map(|x| oracle.round(x, rounding));
    plus[0] == plus[1] && minus == plus.map(|value| -value)
}

pub(crate) fn error_bound(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = ascending(&oracle, 1.0);
    for rounding in instance.modes()? {
        // The declared thresholds of a format define its largest error.
        let nearest =
            matches!(rounding, Rounding::NEAREST_EVEN | Rounding::NEAREST_AWAY) && !oracle.has_thresholds();
        let (values, _) = instance.quantized(&src, &params(1.0, rounding).lend())?;
        for (&x, &value) in src.iter().zip(&values).filter(|(x, _)| !oracle.saturates(**x)) {
            let (low, high) = oracle.cell(f64::from(x));
            let (gap, error) = (high - low, (f64::from(value) - f64::from(x)).abs());
            // From one side of a value to the other: in f64 the error may be the gap.
            let turned = oracle.has_thresholds() && [low, high].contains(&f64::from(value));
            let within = if nearest { error <= gap / 2.0 } else { error < gap || error == 0.0 || turned };
            if !within {
                let mode = mode_name(rounding);
                return Err(format!(
                    "{mode} takes {} to {}, off by {error:e} of a gap {gap:e}",
                    shown(x),
                    shown(value)
                ));
            }
        }
    }
    Ok(Verdict::Passed)
}
