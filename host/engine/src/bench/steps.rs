//! Steps of all cases, timed in turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use altgrad_base::{diagnostic::Diagnostic, memory};

use super::{
    case::{self, BenchSpec},
    kernels,
    machine::Machine,
    other_trainer::{self, OtherTrainer},
    report::{BenchReport, Timing},
    statistics::{least, median, quartiles},
    step::take_step,
};
use crate::{
    device_rates::{self, sheet_gflop_s},
    fused_ops,
    profile::spans::{SpanRecorder, SpanTime},
    setup::ReadyRun,
};

/// The times of a case's steps.
#[derive(Debug, Default)]
struct Times {
    /// Milliseconds.
    steps: Vec<f64>,
    /// Milliseconds of each part that any step had.
    phases: BTreeMap<&'static str, Vec<f64>>,
}

impl Times {
    fn add(&mut self, step: Duration, phases: BTreeMap<&'static str, f64>) {
        self.steps.push(step.as_secs_f64() * 1e3);
        for (name, time) in phases {
            self.phases.entry(name).or_default().push(time);
        }
    }
}

/// MB.
fn mb(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / 1e6)
}

/// Times the steps of all cases, alternating with another trainer if there is one. `size` is the name of the model's
/// size.
///
/// # Errors
/// A case cannot be run, or the other trainer failed.
pub fn measure(
    spec: &BenchSpec,
    size: &str,
    mut other: Option<&mut OtherTrainer<'_>>,
) -> Result<BenchReport, Diagnostic> {
    let folder = case::tokens_folder(spec)?;
    let runs: Result<Vec<ReadyRun>, Diagnostic> =
        spec.cases.iter().map(|case| case::build(folder.path(), spec, case)).collect();
    let mut runs = runs?;
    let mut times: Vec<Times> = runs.iter().map(|_| Times::default()).collect();
    let turns = if other.is_some() { spec.turns.min(spec.steps) } else { 1 };
    let (mut number, mut rss) = (0, Vec::new());
    for turn in 0..turns {
        let steps = spec.steps * (turn + 1) / turns - spec.steps * turn / turns;
        // Caches are cold after the other trainer's turn.
        let tenth = (spec.steps / 10).max(1) as usize;
        take_steps(&mut runs, &mut times, number..number + spec.warmup + steps, spec.warmup, |step| {
            if step > 0 && step % tenth == 0 {
                rss.extend(mb(memory::rss()));
            }
        })?;
        number += spec.warmup + steps;
        let modes: BTreeSet<&'static str> =
            spec.cases.iter().filter_map(|case| other_trainer::mode(case)).collect();
        for mode in modes {
            if let Some(other) = &mut other {
                other.run(mode, steps, spec.warmup)?;
            }
        }
    }
    let launches: Result<Vec<usize>, Diagnostic> =
        runs.iter_mut().map(|run| kernels::launches(run, number)).collect();
    // Before the machine is measured, which takes memory of its own.
    let peak_rss_mb = mb(memory::peak_rss());
    let device = &runs[0].setup.device;
    let device_memory_mb = mb(device.peak_memory().filter(|_| !device.is_cpu()));
    let machine = Machine::measure(&runs);
    Ok(BenchReport {
        size: size.to_string(),
        shape: spec.model.numbers(),
        device: runs[0].setup.device.label.clone(),
        threads: rayon::current_num_threads(),
        steps: spec.steps,
        host_version: env!("CARGO_PKG_VERSION"),
        peak_rss_mb,
        device_memory_mb,
        rss_mb: rss,
        cases: timings(spec, &runs, (&times, &launches?), other.as_deref(), &machine),
        machine,
    })
}

/// Takes steps of all cases in turn; the first `warmup` do not count. `after` receives the number of completed counted
/// steps. Spans show phases on the CPU only: on a GPU they end when the work is enqueued.
fn take_steps(
    runs: &mut [ReadyRun],
    times: &mut [Times],
    numbers: Range<u64>,
    warmup: u64,
    mut after: impl FnMut(usize),
) -> Result<(), Diagnostic> {
    let recorder = SpanRecorder::start();
    let first = numbers.start + warmup;
    for number in numbers {
        for (run, times) in runs.iter_mut().zip(&mut *times) {
            run.state.quant.state.step = number;
            let elapsed = take_step(run, number)?;
            let spans = recorder.take();
            if number >= first {
                let shown = if fused_ops::is_available(&run.setup.device.tensors) { &spans[..] } else { &[] };
                times.add(elapsed, phases(shown));
            }
        }
        after(times[0].steps.len());
    }
    Ok(())
}

/// Milliseconds of the outermost spans, by name.
fn phases(spans: &[SpanTime]) -> BTreeMap<&'static str, f64> {
    let mut phases = BTreeMap::new();
    for span in spans.iter().filter(|span| span.depth == 0) {
        *phases.entry(span.name).or_default() += (span.end - span.start).as_secs_f64() * 1e3;
    }
    phases
}

fn timings(
    spec: &BenchSpec,
    runs: &[ReadyRun],
    (times, launches): (&[Times], &[usize]),
    other: Option<&OtherTrainer<'_>>,
    machine: &Machine,
) -> Vec<Timing> {
    let (first_median, first_least) = (median(&times[0].steps), least(&times[0].steps));
    let timing = |(((case, run), times), &launches): (((&String, &ReadyRun), &Times), &usize)| {
        let (median_ms, least_ms) = (median(&times.steps), least(&times.steps));
        let gflop = device_rates::step_gflop(&run.setup, &run.state.params.layout);
        Timing {
            case: case.clone(),
            median_ms,
            quartiles_ms: quartiles(&times.steps),
            least_ms,
            median_ratio: median_ms / first_median,
            least_ratio: least_ms / first_least,
            tokens_per_s: run.setup.tokens_per_step() as f64 / median_ms * 1e3,
            gflop,
            mfu: machine.product_gflop_s(&run.setup).map(|rate| gflop / rate * 1e3 / median_ms),
            mfu_data_sheet: sheet_gflop_s(&run.setup).map(|rate| gflop / rate * 1e3 / median_ms),
            launches,
            floor_ms: machine.matmul_gflop_s.map(|rate| gflop / rate * 1e3),
            phases_ms: times.phases.iter().map(|(name, times)| (*name, median(times))).collect(),
            other: other.and_then(|other| other.beside(case, [median_ms, least_ms])),
        }
    };
    spec.cases.iter().zip(runs).zip(times).zip(launches).map(timing).collect()
}
