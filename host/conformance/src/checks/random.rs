//! Stochastic rounding: unbiased, distributed as it must be, independent, and keyed.
//!
//! Every test statistic is compared at 4 standard errors, and fails only if another seed fails too: with dozens of
//! statistics a format, one of them is beyond that by chance now and then, but hardly twice.

use altgrad_plugin_api::{QuantParams, RandomKey, Rounding};

use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{KEY, lacks, same_values},
    inputs::in_range,
    oracle::Oracle,
};

/// Standard errors allowed.
const LIMIT: f64 = 4.0;
/// Roundings a statistic.
const ROUNDINGS: usize = 1 << 16;

/// The instance and its definition, or the reason why there is nothing to check.
macro_rules! stochastic_or_skip {
    ($subject:expr) => {{
        let (instance, oracle) = $subject.instance_and_oracle()?;
        if !instance.supports(Rounding::STOCHASTIC)? {
            return lacks(Rounding::STOCHASTIC);
        }
        (instance, oracle)
    }};
}

fn keyed(key: RandomKey) -> QuantParams<'static> {
    QuantParams { key, rounding: Rounding::STOCHASTIC, ..QuantParams::IDENTITY }
}

/// Runs a test with one seed, and with another if it fails.
fn twice(test: impl Fn(u64) -> Result<(), String>) -> CheckResult {
    test(KEY.seed).or_else(|_| test(0xab5e_1f00_d5ee)).map(|()| Verdict::Passed)
}

pub(crate) fn stochastic_keys(subject: &Subject) -> CheckResult {
    let (instance, oracle) = stochastic_or_skip!(subject);
    let src = in_range(&oracle, 1.0, 4096, 91);
    let (expected, _) = instance.quantized(&src, &keyed(KEY))?;
    let (again, _) = subject.instance()?.quantized(&src, &keyed(KEY))?;
    same_values("the same key on another instance", &again, &expected)?;
    let others = [
        RandomKey { seed: KEY.seed + 1, ..KEY },
        RandomKey { seed: KEY.seed ^ 1 << 40, ..KEY },
        RandomKey { step: KEY.step + 1, ..KEY },
        RandomKey { tensor: KEY.tensor + 1, ..KEY },
        RandomKey { offset: 1, ..KEY },
        RandomKey { offset: 4096, ..KEY },
        RandomKey { offset: 1 << 34, ..KEY },
    ];
    for key in others {
        if same_values("", &instance.quantized(&src, &keyed(key))?.0, &expected).is_ok() {
            return Err(format!("{key:?} draws the same bits as {KEY:?}"));
        }
    }
    Ok(Verdict::Passed)
}

/// A cell and its kind.
type Cell = (&'static str, f64, f64);

/// One cell of each kind: beside zero, within the small values, around ordinary ones, at both sides of a change of
/// spacing, the last, and a negative one.
fn cells(oracle: &Oracle) -> Vec<Cell> {
    let values: Vec<f64> = oracle.values().filter(|&value| value >= 0.0).collect();
    let pairs: Vec<(f64, f64)> = values.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let Some(&(low, high)) = pairs.first() else { return Vec::new() };
    let mut cells = vec![("beside zero", low, high)];
    let mut add = |kind, index: usize| {
        if let Some(&(low, high)) = pairs.get(index) {
            cells.push((kind, low, high));
        }
    };
    add("second", 1);
    let edge = pairs.windows(2).position(|pair| pair[1].1 - pair[1].0 > pair[0].1 - pair[0].0);
    if let Some(edge) = edge {
        add("below a binade edge", edge);
        add("above a binade edge", edge + 1);
    }
    add("ordinary", pairs.len() / 2);
    add("last", pairs.len() - 1);
    if let Some((low, high)) = oracle.values().zip(oracle.values().skip(1)).find(|&(_, high)| high < 0.0) {
        cells.push(("negative", low, high));
    }
    cells
}

/// An input `share` of the way through a cell, and that share rounded to f32.
fn within(&(_, low, high): &Cell, share: f64) -> (f32, f64) {
    let x = (low + share * (high - low)) as f32;
    (x, (f64::from(x) - low) / (high - low))
}

/// The number of roundings of one value that went up.
fn count_up(instance: &Instance, x: f32, cell: &Cell, key: RandomKey) -> Result<usize, String> {
    let (values, _) = instance.quantized(&vec![x; ROUNDINGS], &keyed(key))?;
    for &value in &values {
        if f64::from(value) != cell.1 && f64::from(value) != cell.2 {
            return Err(format!("{x:e} becomes {value:e}, outside its cell {:e} .. {:e}", cell.1, cell.2));
        }
    }
    Ok(values.iter().filter(|&&value| f64::from(value) == cell.2).count())
}

pub(crate) fn stochastic_unbiased(subject: &Subject) -> CheckResult {
    let (instance, oracle) = stochastic_or_skip!(subject);
    for (tensor, cell) in cells(&oracle).iter().enumerate() {
        for (step, share) in [0.02, 0.25, 0.5, 0.7, 0.99].into_iter().enumerate() {
            twice(|seed| {
                let (x, p) = within(cell, share);
                let key = RandomKey { seed, step: step as u64, tensor: tensor as u64, offset: 0 };
                let up = count_up(&instance, x, cell, key)? as f64 / ROUNDINGS as f64;
                let error = (p * (1.0 - p) / ROUNDINGS as f64).sqrt();
                if (up - p).abs() <= LIMIT * error {
                    return Ok(());
                }
                let off = (up - p) / error;
                Err(format!(
                    "in a cell {} {x:e} goes up with {up:.5}, {p:.5} expected ({off:+.1} standard errors)",
                    cell.0
                ))
            })?;
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn stochastic_chi_square(subject: &Subject) -> CheckResult {
    const SHARES: usize = 48;
    let (instance, oracle) = stochastic_or_skip!(subject);
    for cell in &cells(&oracle) {
        twice(|seed| {
            let mut chi_square = 0.0;
            for i in 0..SHARES {
                let (x, p) = within(cell, (i as f64 + 0.5) / SHARES as f64);
                let key = RandomKey { seed, step: 1 << 20, tensor: i as u64, offset: 1 << 20 };
                let up = count_up(&instance, x, cell, key)? as f64;
                let due = ROUNDINGS as f64 * p;
                chi_square += (up - due).powi(2) / (due * (1.0 - p));
            }
            // Cube root of a chi-square is nearly normal (Wilson, Hilferty 1931). Too small is no chance either.
            let spread = 2.0 / (9.0 * SHARES as f64);
            let z = ((chi_square / SHARES as f64).cbrt() - (1.0 - spread)) / spread.sqrt();
            if z.abs() <= LIMIT {
                return Ok(());
            }
            Err(format!(
                "in a cell {} chi-square is {chi_square:.1} of {SHARES} shares ({z:+.1} deviations)",
                cell.0
            ))
        })?;
    }
    Ok(Verdict::Passed)
}

pub(crate) fn stochastic_independence(subject: &Subject) -> CheckResult {
    let (instance, oracle) = stochastic_or_skip!(subject);
    for cell in cells(&oracle).iter().take(3) {
        for share in [0.5, 0.2] {
            twice(|seed| {
                let (x, p) = within(cell, share);
                // +-1-like variables of mean 0 and variance 1.
                let draws = |key: RandomKey| -> Result<Vec<f64>, String> {
                    let (values, _) = instance.quantized(&vec![x; ROUNDINGS], &keyed(key))?;
                    let up = values.iter().map(|&value| f64::from(u8::from(f64::from(value) == cell.2)));
                    Ok(up.map(|up| (up - p) / (p * (1.0 - p)).sqrt()).collect())
                };
                let key = RandomKey { seed, step: 100, tensor: 5, offset: 0 };
                let base = draws(key)?;
                for lag in [1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 128, 256, 512, 1024] {
                    uncorrelated(&format!("elements {lag} apart"), &base[lag..], &base)?;
                }
                for (what, other) in [
                    ("consecutive steps", RandomKey { step: 101, ..key }),
                    ("steps far apart", RandomKey { step: 1 << 31, ..key }),
                    ("neighbouring tensors", RandomKey { tensor: 6, ..key }),
                    ("neighbouring seeds", RandomKey { seed: seed + 1, ..key }),
                    ("step and tensor exchanged", RandomKey { step: 5, tensor: 100, ..key }),
                ] {
                    uncorrelated(what, &draws(other)?, &base)?;
                }
                Ok(())
            })?;
        }
    }
    Ok(Verdict::Passed)
}

/// Checks that the mean product of two normalised sequences is within chance.
fn uncorrelated(what: &str, a: &[f64], b: &[f64]) -> Result<(), String> {
    let count = a.len().min(b.len()) as f64;
    let sum: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let z = sum / count.sqrt();
    if z.abs() <= LIMIT {
        return Ok(());
    }
    Err(format!("{what} are correlated: {:+.4} ({z:+.1} standard errors)", sum / count))
}
