//! Calls together: again, on another instance, from several threads, in parts.

use std::thread;

use altgrad_plugin_api::{QuantParams, QuantStats, RandomKey, Rounding};

use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{KEY, OneScale, mode_name, params, same_values},
    inputs::{in_range, mixture},
    subject::{UNWRITTEN, said},
};

/// The results of one call over a slice: values, statistics, and codes (of the same slice without
/// NaN).
type Made = (Vec<f32>, QuantStats, Vec<u16>);

fn made(instance: &Instance, src: &[f32], params: &QuantParams<'_>) -> Result<Made, String> {
    let (values, stats) = instance.quantized(src, params)?;
    let without: Vec<f32> = src.iter().map(|&x| if x.is_nan() { 0.0 } else { x }).collect();
    Ok((values, stats, instance.encoded(&without, params)?))
}

fn same_made(what: &str, got: &Made, expected: &Made) -> Result<(), String> {
    same_values(what, &got.0, &expected.0)?;
    if got.1 != expected.1 {
        return Err(format!("{what}: statistics {:?}, {:?} expected", got.1, expected.1));
    }
    if got.2 == expected.2 { Ok(()) } else { Err(format!("{what}: the codes differ")) }
}

pub(crate) fn repeatable(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = mixture(&oracle, 3.7, 71);
    // Other calls lie between the two that must agree.
    let modes = instance.modes()?;
    let run = |_| modes.iter().map(|&mode| made(&instance, &src, &params(3.7, mode).lend())).collect();
    let rounds = [(); 3].map(run);
    let [first, second, third]: [Result<Vec<Made>, String>; 3] = rounds;
    let (first, second, third) = (first?, second?, third?);
    for (i, &mode) in modes.iter().enumerate() {
        for later in [&second, &third] {
            same_made(&format!("the same call again, {}", mode_name(mode)), &later[i], &first[i])?;
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn instances(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = mixture(&oracle, 0.3, 72);
    for mode in instance.modes()? {
        let (other, params) = (params(2.0, mode), params(0.3, mode));
        let (other, params) = (other.lend(), params.lend());
        let alone = made(&subject.instance()?, &src, &params)?;
        let (one, two) = (subject.instance()?, subject.instance()?);
        let what = |which: &str| format!("{which} of two instances, {}", mode_name(mode));
        same_made(&what("the second"), &made(&two, &src, &params)?, &alone)?;
        made(&two, &src[..100], &other)?;
        same_made(&what("the first"), &made(&one, &src, &params)?, &alone)?;
        drop(one);
        same_made(&what("the remaining"), &made(&two, &src, &params)?, &alone)?;
    }
    Ok(Verdict::Passed)
}

pub(crate) fn threads(subject: &Subject) -> CheckResult {
    const THREADS: usize = 4;
    const ROUNDS: usize = 8;
    let (instance, oracle) = subject.instance_and_oracle()?;
    for mode in instance.modes()? {
        let jobs: Vec<(Vec<f32>, OneScale)> = (0..THREADS)
            .map(|thread| {
                let scale = 1.0 + thread as f32;
                (mixture(&oracle, scale, 81 + thread as u64), params(scale, mode))
            })
            .collect();
        let expected: Vec<Made> = jobs
            .iter()
            .map(|(src, params)| made(&instance, src, &params.lend()))
            .collect::<Result<_, _>>()?;
        thread::scope(|scope| {
            let run = |job: usize| {
                let what = format!("thread {job} of {THREADS}, {}", mode_name(mode));
                let (src, params) = &jobs[job];
                let again = || made(&instance, src, &params.lend());
                (0..ROUNDS).try_for_each(|_| same_made(&what, &again()?, &expected[job]))
            };
            let running: Vec<_> = (0..THREADS).map(|job| scope.spawn(move || run(job))).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err("a thread of the suite itself panicked".into()))
            })
        })?;
    }
    Ok(Verdict::Passed)
}

/// Calls of an instance, more than a plugin may have counted on.
pub(crate) const MANY: usize = 120_000;

pub(crate) fn endurance(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = in_range(&oracle, 3.7, 3, 74);
    let params = params(3.7, Rounding::NEAREST_EVEN);
    let params = params.lend();
    let first = made(&instance, &src, &params)?;
    let (mut values, mut codes) = ([UNWRITTEN; 3], [u16::MAX; 3]);
    for call in 0..MANY {
        let at = |error| format!("call {call} of an instance: {}", said("fake_quant or encode", &error));
        let stats = instance.fake_quant(&src, &mut values, &params, &mut []).map_err(at)?;
        // Codes are the slower half of it.
        if call % 4 == 0 {
            instance.encode(&src, &mut codes, &params).map_err(at)?;
        }
        let again = (values.to_vec(), stats, if call % 4 == 0 { codes.to_vec() } else { first.2.clone() });
        same_made(&format!("call {call} of an instance"), &again, &first)?;
    }
    Ok(Verdict::Passed)
}

pub(crate) fn splits(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = in_range(&oracle, 3.7, 3001, 73);
    for mode in instance.modes()? {
        for base in [0, 1, 1 << 33] {
            let params = OneScale { key: RandomKey { offset: base, ..KEY }, ..params(3.7, mode) };
            let params = params.lend();
            let whole = made(&instance, &src, &params)?;
            for part in [1, 3, 4, 100, 511, 512, 513, 3000] {
                let what = format!("parts of {part}, {}", mode_name(mode));
                let (mut values, mut stats, mut codes) = (Vec::new(), QuantStats::default(), Vec::new());
                for (i, src) in src.chunks(part).enumerate() {
                    let part = made(&instance, src, &params.skip((i * part) as u64))?;
                    values.extend(part.0);
                    stats.merge(&part.1);
                    codes.extend(part.2);
                }
                // Sums depend on the split within their tolerance; they are checked elsewhere.
                let counts = |stats: &QuantStats| {
                    [stats.overflow, stats.underflow, stats.nan, stats.nonzero, stats.amax.to_bits().into()]
                };
                if counts(&stats) != counts(&whole.1) {
                    return Err(format!("{what}: statistics {stats:?}, of the whole {:?}", whole.1));
                }
                same_made(&what, &(values, whole.1, codes), &whole)?;
            }
        }
    }
    Ok(Verdict::Passed)
}
