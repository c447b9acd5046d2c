//! Calls with everything chosen at random, from a seed that replays them.

use altgrad_plugin_api::{QuantParams, QuantStats, RandomKey, Rounding};

use crate::{
    CheckResult, Instance, Random, Subject, Verdict,
    compare::{OneScale, check_rounding, params},
    inputs::{NANS, bit_patterns, edges, in_range, scales, unscaled},
    oracle::Oracle,
    subject::{UNWRITTEN, said},
};

/// Calls of a check.
const CALLS: u64 = 300;
/// Most elements of a call.
const LENGTH: u64 = 700;

pub(crate) fn random_calls(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let (modes, edges) = (instance.modes()?, edges(&oracle));
    for seed in subject.seed..subject.seed + CALLS {
        let mut random = Random(seed);
        let params = random_params(&mut random, &oracle, &modes);
        let params = params.lend();
        let src = random_values(&mut random, &oracle, &edges, params.scales.of(0)[0]);
        let called = check_rounding(&instance, &oracle, &src, &params)
            .and_then(|()| with_nan(&instance, &oracle, src, &params, &mut random));
        called.map_err(|fault| format!("seed {seed}: {fault}"))?;
    }
    Ok(Verdict::Passed)
}

fn random_params(random: &mut Random, oracle: &Oracle, modes: &[Rounding]) -> OneScale {
    let scales = scales(oracle);
    let scale = match random.next_u64() % 3 {
        0 => scales[random.next_u64() as usize % scales.len()],
        1 => 2f32.powi((random.next_u64() % 60) as i32 - 30),
        _ => (random.gaussian().exp()) as f32,
    };
    let key = RandomKey {
        seed: random.next_u64(),
        step: random.next_u64() >> 32,
        tensor: random.next_u64() >> 32,
        offset: random.next_u64() >> (random.next_u64() % 64),
    };
    let rounding = modes[random.next_u64() as usize % modes.len()];
    OneScale { key, ..params(scale, rounding) }
}

/// Values of one sort or another, none of them NaN.
fn random_values(random: &mut Random, oracle: &Oracle, edges: &[f32], scale: f32) -> Vec<f32> {
    let length = (random.next_u64() % (LENGTH + 1)) as usize;
    let seed = random.next_u64();
    let mut values = match random.next_u64() % 3 {
        0 => bit_patterns(length, seed),
        1 => in_range(oracle, scale, length, seed),
        _ => {
            let stored: Vec<f32> =
                (0..length).map(|_| edges[random.next_u64() as usize % edges.len()]).collect();
            unscaled(&stored, scale)
        }
    };
    // An element that scaling turns into NaN is no input of rounding.
    values.retain(|x| !(x * scale).is_nan());
    values
}

/// The same call with NaN among the values, into the middle of a larger memory: NaN stays, counts are right, nothing
/// else is written.
fn with_nan(
    instance: &Instance,
    oracle: &Oracle,
    mut src: Vec<f32>,
    params: &QuantParams<'_>,
    random: &mut Random,
) -> Result<(), String> {
    for _ in 0..random.next_u64() % 4 {
        let at = random.next_u64() as usize % (src.len() + 1);
        src.insert(at, NANS[random.next_u64() as usize % NANS.len()]);
    }
    let start = (random.next_u64() % 5) as usize;
    let end = start + src.len();
    let mut memory = vec![UNWRITTEN; end + 5];
    let mut histogram = vec![0; if random.next_u64() & 1 == 0 { 0 } else { oracle.by_code().len() }];
    let stats = instance
        .fake_quant(&src, &mut memory[start..end], params, &mut histogram)
        .map_err(|error| said("fake_quant", &error))?;
    let beside = memory[..start].iter().chain(&memory[end..]);
    if beside.into_iter().any(|value| value.to_bits() != UNWRITTEN.to_bits()) {
        return Err(format!("memory beside a destination of {} elements was written", src.len()));
    }
    if let Some(at) = (0..src.len()).find(|&i| src[i].is_nan() != memory[start + i].is_nan()) {
        return Err(format!("{:e} became {:e}", src[at], memory[start + at]));
    }
    counted(&src, params, oracle, &stats)?;
    let counts: u64 = histogram.iter().sum();
    let [least, most] = [src.len() as u64 - stats.nan, src.len() as u64];
    if !histogram.is_empty() && !(least..=most).contains(&counts) {
        return Err(format!("the histogram of {most} elements, {} of them NaN, counts {counts}", stats.nan));
    }
    Ok(())
}

/// Counts against the definition.
fn counted(src: &[f32], params: &QuantParams<'_>, oracle: &Oracle, stats: &QuantStats) -> Result<(), String> {
    let [scale, _] = params.scales.of(0);
    let count = |is: &dyn Fn(f32) -> bool| src.iter().filter(|x| is(**x)).count() as u64;
    let rows = [
        ("nan", stats.nan, count(&|x| x.is_nan())),
        ("nonzero", stats.nonzero, count(&|x| x != 0.0)),
        ("overflow", stats.overflow, count(&|x| oracle.overflows(x * scale))),
    ];
    if let Some((name, got, expected)) = rows.into_iter().find(|(_, got, expected)| got != expected) {
        return Err(format!("{name} is {got}, expected {expected}, with scale {scale}"));
    }
    let amax = src.iter().filter(|x| x.is_finite()).fold(0f32, |amax, x| amax.max(x.abs()));
    if stats.amax == amax { Ok(()) } else { Err(format!("amax is {:e}, expected {amax:e}", stats.amax)) }
}
