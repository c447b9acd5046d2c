//! The magnitude that a format gives the elements of a block, in place of the largest.

use crate::{CheckResult, Random, Subject, Verdict, subject::said};

pub(crate) fn magnitudes(subject: &Subject) -> CheckResult {
    let instance = subject.instance()?;
    if !instance.conventions()?.has_magnitude {
        return Ok(Verdict::Skipped("its blocks are scaled by their largest magnitudes".into()));
    }
    let of = |block: &[f32]| instance.magnitude(block).map_err(|error| said("magnitude", &error));
    let mut random = Random(subject.seed);
    for length in [1, 2, 3, 16, 31, 32, 128, 1000, 65_537] {
        for exponent in [-149, -126, -60, 0, 60, 127] {
            let mut block: Vec<f32> =
                (0..length).map(|_| (random.gaussian() * 2f64.powi(exponent)) as f32).collect();
            block[0] = 2f64.powi(exponent) as f32;
            for (what, special) in [("", 0.0), (" and NaN", f32::NAN), (" and an infinity", f32::INFINITY)] {
                if let Some(last) = block[1..].last_mut() {
                    *last = special;
                }
                let found = of(&block)?;
                let place = format!("of {length} normal numbers times 2^{exponent}{what}");
                if !(found > 0.0 && found.is_finite()) {
                    return Err(format!("the magnitude {place} is {found}, not a finite number above 0"));
                }
                let again = of(&block)?;
                if again.to_bits() != found.to_bits() {
                    return Err(format!("the magnitude {place} is {found}, then {again}"));
                }
            }
        }
        for (what, value) in [("zeros", 0.0), ("NaN", f32::NAN), ("infinities", f32::NEG_INFINITY)] {
            let found = of(&vec![value; length])?;
            if !(found >= 0.0 && found.is_finite()) {
                return Err(format!(
                    "the magnitude of {length} {what} is {found}, not a finite number from 0"
                ));
            }
        }
    }
    Ok(Verdict::Passed)
}
