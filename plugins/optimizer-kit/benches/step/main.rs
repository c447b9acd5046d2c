//! Speed of optimizer steps, as a multiple of the time that moving the same bytes takes.
//!
//! `cargo bench -p altgrad-optimizer-kit`. A step with two states reads four f32 per element and writes three; a copy
//! of 3.5 f32 per element moves as many bytes. A step with one state reads three and writes two: its copy is of 2.5.
//! Each measurement is a copy, a step right after it and, if there is one, a step of PyTorch's fused AdamW, so that
//! other work of the machine affects all; criterion reports the step, the table at the end compares the medians, and
//! the fastest of each. Several threads have parts of the parameter, as in the host. `ALTGRAD_PYTHON` names a Python
//! that has torch.

#[path = "../../../benches/times.rs"]
mod times;
mod torch;

use std::{env, hint::black_box, thread, time::Duration};

use altgrad_optimizer_kit::{
    Adam, Buffers,
    buffers::checked,
    codes::Codes,
    one_state::{self, Momentum, Multiplied, Normalized, OneState, Sign},
    rule::{ElementRule, Linear, MeanSpacing, OnChart, ScaledGradient, ScaledStep, Spacing},
    smooth::Smooth,
    testing::numbers,
};
use altgrad_plugin_api::{
    Config, Domain, ParamInfo, PluginError, Scales, Step, StepScalars,
    grid::{MinifloatGrid, minifloat},
};
use criterion::{Criterion, SamplingMode};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};
use times::{copy, median_and_least, timed};
use torch::Torch;

/// Elements, as many as a small model has parameters: 120 MB of f32 in each of four buffers.
const ELEMENTS: usize = 30_000_000;
/// Elements of a part, as the host cuts them.
const PART: usize = 1 << 16;
/// The rules that keep one state.
const ONE_STATE: [&str; 4] = ["sgd", "sgd nesterov", "lion", "madam"];
/// The target ratio.
const AIM: f64 = 1.3;

type Failed = Box<dyn std::error::Error>;
/// One optimizer's update of one parameter.
type Update = Box<dyn Fn(Step<'_>) -> Result<(), PluginError> + Sync>;

/// The arrays of a training step, and those of the copy.
struct Arrays {
    param: Vec<f32>,
    grad: Vec<f32>,
    exp_avg: Vec<f32>,
    exp_avg_sq: Vec<f32>,
    from: Vec<f32>,
    to: Vec<f32>,
}

fn always<R: ElementRule + Sync + 'static>(rule: R) -> Update {
    Box::new(move |step| {
        Buffers::of(step)?.update(&rule);
        Ok(())
    })
}

fn one_state<R: OneState + Sync + 'static>(rule: R) -> Update {
    Box::new(move |step| {
        let (param, grad, [state, _]) = checked(step)?;
        one_state::update(&rule, param, grad, state);
        Ok(())
    })
}

/// Rules with one state.
fn updates_of_one_state() -> Vec<(&'static str, Update)> {
    let (lr, keep) = (1e-4, 0.9999);
    let normalized = Normalized { beta: 0.999, mix: 0.001, correction: 0.01, bound: 10.0, whole: false };
    vec![
        ("sgd", one_state(Momentum { lr, momentum: 0.9, mix: 1.0, nesterov: false, keep, coupled: 0.0 })),
        (
            "sgd nesterov",
            one_state(Momentum { lr, momentum: 0.9, mix: 1.0, nesterov: true, keep, coupled: 0.0 }),
        ),
        ("lion", one_state(Sign { lr, keep, direction: [0.9, 0.1], memory: [0.99, 0.01] })),
        ("madam", one_state(Multiplied { normalized, keep, lr, bound: 3.0 })),
    ]
}

/// Every rule with two states, for E4M3 scaled so that 1 is its largest value.
fn updates() -> Result<Vec<(&'static str, Update)>, Failed> {
    let options = Adam::options(1e-8);
    let adam = Adam::new(&Config::resolve(&options, []).map_err(|fault| fault.message)?)?;
    let moments = adam.moments(1e-4, 10);
    // Beyond where charts have a shorter way.
    let far = adam.moments(5.0, 10);
    let grid = MinifloatGrid::new(minifloat(4, 3, Domain::FN)?)?;
    let (codes, smooth) = Codes::new(&grid).zip(Smooth::new(&grid)).ok_or("E4M3 has both charts")?;
    let (keep, scale) = (0.9999, grid.max_finite() * 0.999);
    let inv_scale = 1.0 / scale;
    let factor = Spacing { geometry: codes, scale, unit: inv_scale };
    let info = ParamInfo::new("w", &[1u64, 1]);
    Ok(vec![
        ("adamw", always(adam.plain(&info, StepScalars::new(1e-4, 10)))),
        ("stiffness post", always(ScaledStep { keep, moments, factor })),
        (
            "stiffness power",
            Box::new(move |step| {
                let buffers = Buffers::of(step)?;
                let mean = MeanSpacing::new(codes, &Scales::whole(&[scale, inv_scale]), buffers.param());
                let factor = mean.power(scale, 0.5, 1.0);
                buffers.update(&ScaledStep { keep, moments, factor });
                Ok(())
            }),
        ),
        ("stiffness pre", always(ScaledGradient { keep, moments, factor })),
        ("manifold exp", always(OnChart { keep, moments, chart: codes, scale, inv_scale })),
        ("exp, far", always(OnChart { keep, moments: far, chart: codes, scale, inv_scale })),
        ("manifold linear", always(OnChart { keep, moments, chart: Linear(codes), scale, inv_scale })),
        ("manifold asinh", always(OnChart { keep, moments, chart: smooth, scale, inv_scale })),
        ("asinh, far", always(OnChart { keep, moments: far, chart: smooth, scale, inv_scale })),
    ])
}

/// A line of the table: all three were measured in turn.
fn line(name: &str, threads: usize, [copies, steps, theirs]: [&mut [Duration]; 3]) -> String {
    let ([copy, least_copy], [took, least_took]) = (median_and_least(copies), median_and_least(steps));
    let (ratio, least) = (took / copy, least_took / least_copy);
    let mut line =
        format!("{name:16} {threads:7}  {copy:7.2}  {took:7.2}  {ratio:5.2}  {least:14.2}  {AIM:3}");
    if !theirs.is_empty() {
        let [theirs, least_theirs] = median_and_least(theirs);
        line += &format!("  {theirs:8.2}  {:10.2}  {:10.2}", took / theirs, least_took / least_theirs);
    }
    line + "\n"
}

/// The number of elements of a copy that moves as many bytes as a step.
fn moved(name: &str) -> usize {
    if ONE_STATE.contains(&name) { ELEMENTS * 5 / 2 } else { ELEMENTS * 7 / 2 }
}

/// A step, in parts unless the update has to see much of a parameter: then each thread has a parameter of its own.
fn step(pool: &ThreadPool, update: &Update, whole: bool, arrays: &mut Arrays) -> Result<(), PluginError> {
    let share = if whole { ELEMENTS.div_ceil(pool.current_num_threads()) } else { PART };
    let Arrays { param, grad, exp_avg, exp_avg_sq, .. } = arrays;
    pool.install(|| {
        let parts = param.par_chunks_mut(share).zip(grad.par_chunks(share));
        let states = exp_avg.par_chunks_mut(share).zip(exp_avg_sq.par_chunks_mut(share));
        parts.zip(states).try_for_each(|((param, grad), (m, v))| {
            let info = ParamInfo::new("w", &[]);
            let scalars = StepScalars::new(1e-4, 10);
            update(Step { info, param, grad, states: &mut [m, v], scalars, grid: None })
        })
    })
}

fn main() -> Result<(), Failed> {
    let mut arrays = Arrays {
        param: numbers(1, ELEMENTS),
        grad: numbers(2, ELEMENTS),
        exp_avg: vec![0.0; ELEMENTS],
        exp_avg_sq: vec![0.0; ELEMENTS],
        from: numbers(3, ELEMENTS * 7 / 2),
        to: vec![1.0; ELEMENTS * 7 / 2],
    };
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    let mut table = String::from(
        "optimizer        threads  copy ms  step ms  ratio  of the fastest  aim  torch ms  ours/torch  of fastest\n",
    );
    let python = env::var("ALTGRAD_PYTHON").ok();
    for threads in [1, thread::available_parallelism()?.get()] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut torch = match &python {
            Some(python) => Torch::start(python, ELEMENTS, threads)?,
            None => None,
        };
        let mut their_version = "no PyTorch: ALTGRAD_PYTHON names no Python that has it".to_string();
        if let Some(torch) = &torch {
            their_version = format!("PyTorch {}, AdamW(fused=True)", torch.version);
        }
        println!("{threads} threads; {their_version}");
        let mut group = criterion.benchmark_group(format!("{threads} threads"));
        group.sampling_mode(SamplingMode::Flat);
        for (name, update) in updates()?.iter().chain(&updates_of_one_state()) {
            let moved = moved(name);
            let (mut copies, mut steps, mut theirs, mut failed) = (Vec::new(), Vec::new(), Vec::new(), None);
            let whole = *name == "stiffness power";
            group.bench_function(*name, |bencher| {
                bencher.iter_custom(|times| {
                    let mut total = Duration::ZERO;
                    for _ in 0..times {
                        let Arrays { from, to, .. } = &mut arrays;
                        copies.push(timed(|| {
                            copy(&pool, black_box(&from[..moved]), black_box(&mut to[..moved]))
                        }));
                        let took = timed(|| {
                            failed =
                                step(&pool, update, whole, black_box(&mut arrays)).err().or(failed.take())
                        });
                        theirs.extend(torch.as_mut().and_then(Torch::step));
                        steps.push(took);
                        total += took;
                    }
                    total
                });
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
            if !copies.is_empty() {
                table += &line(name, threads, [&mut copies, &mut steps, &mut theirs]);
            }
        }
        group.finish();
    }
    criterion.final_summary();
    println!("\n{ELEMENTS} elements, medians of milliseconds\n{table}");
    Ok(())
}
