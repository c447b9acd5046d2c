//! Comparison of results with the slow definition; a difference is one sentence.

use altgrad_plugin_api::{QuantParams, RandomKey, Rounding, Scales};

use crate::{CheckResult, Instance, Oracle, Verdict};

/// The parameters of a call with one scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneScale {
    /// The scale and its inverse.
    pub(crate) pair: [f32; 2],
    pub(crate) rounding: Rounding,
    pub(crate) key: RandomKey,
}

impl OneScale {
    /// The same as a call takes them.
    pub(crate) fn lend(&self) -> QuantParams<'_> {
        QuantParams { scales: Scales::whole(&self.pair), rounding: self.rounding, key: self.key }
    }
}

/// Parameters with the inverse scale as the host computes it.
pub(crate) fn params(scale: f32, rounding: Rounding) -> OneScale {
    OneScale { pair: [scale, 1.0 / scale], rounding, key: KEY }
}

/// The key of checks that do not care which.
pub(crate) const KEY: RandomKey = RandomKey { seed: 0x5eed_0123_4567, step: 3, tensor: 7, offset: 0 };

/// A mode as messages spell it.
pub(crate) fn mode_name(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::NEAREST_EVEN => "nearest-even",
        Rounding::NEAREST_AWAY => "nearest-away",
        Rounding::TOWARD_ZERO => "toward-zero",
        Rounding::STOCHASTIC => "stochastic",
        _ => "in an unknown mode",
    }
}

/// The skip of a check for a mode the format lacks.
pub(crate) fn lacks(rounding: Rounding) -> CheckResult {
    Ok(Verdict::Skipped(format!("the format does not round {}", mode_name(rounding))))
}

/// A value and its bits.
pub(crate) fn shown(x: f32) -> String {
    format!("{x:e} ({:#010x})", x.to_bits())
}

/// True if two results are bit-identical; all NaN are equal.
pub(crate) fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// The first place where two results differ.
pub(crate) fn same_values(what: &str, got: &[f32], expected: &[f32]) -> Result<(), String> {
    let differs = got.iter().zip(expected).position(|(&got, &expected)| !same(got, expected));
    match differs {
        None if got.len() == expected.len() => Ok(()),
        None => Err(format!("{what}: {} results, {} expected", got.len(), expected.len())),
        Some(i) => {
            let (got, expected) = (shown(got[i]), shown(expected[i]));
            Err(format!("{what}: element {i} is {got}, {expected} expected"))
        }
    }
}

/// Rounds `src` (no NaN) to values and to codes, and holds both against the definition.
pub(crate) fn check_rounding(
    instance: &Instance,
    oracle: &Oracle,
    src: &[f32],
    params: &QuantParams<'_>,
) -> Result<(), String> {
    let (values, _) = instance.quantized(src, params)?;
    let codes = instance.encoded(src, params)?;
    for (i, ((&x, &value), &code)) in src.iter().zip(&values).zip(&codes).enumerate() {
        let [scale, inverse] = params.scales.of(i as u64);
        let place = || format!("{} with scale {scale} {}", shown(x), mode_name(params.rounding));
        let allowed = oracle.round(x * scale, params.rounding);
        let due = allowed.map(|stored| stored * inverse);
        let of_code = oracle.by_code().get(usize::from(code)).copied();
        if !Oracle::allows(due, value) {
            return Err(format!("fake_quant of {}: {}, {}", place(), shown(value), expected(due)));
        }
        let Some(of_code) = of_code.filter(|&of_code| oracle.allows_code(allowed, of_code)) else {
            let meaning =
                of_code.map_or("no code of the format".into(), |value| format!("which is {value:e}"));
            return Err(format!("encode of {}: code {code:#x}, {meaning}, {}", place(), expected(allowed)));
        };
        // Where two results are allowed, both calls must return the same one.
        if of_code * inverse != value {
            return Err(format!("of {}: fake_quant makes {value:e}, encode {of_code:e}", place()));
        }
    }
    Ok(())
}

fn expected([a, b]: [f32; 2]) -> String {
    if a.to_bits() == b.to_bits() {
        format!("expected {}", shown(a))
    } else {
        format!("expected {} or {}", shown(a), shown(b))
    }
}
