//! Update kernels against `optimizer-kit`'s rules: all rules, on the grids of all formats.
//!
//! Devices may contract to fma, and WGSL's division and root are not exact, so values agree to a millionth: of a weight
//! before or after (whichever is larger, because a step may end near zero), and of a moment.

use altgrad_optimizer_kit::{
    Adam, Buffers, Chart, Moments,
    codes::Codes,
    device,
    rule::{Linear, MeanSpacing, OnChart, PlainStep, ScaledGradient, ScaledStep, Spacing},
    smooth::Smooth,
};
use altgrad_plugin_api::{
    BufferRole, Config, ConfigValue, FormatSpec, Grid, KernelLanguage, KernelOp, KernelText, Launch,
    ParamInfo, QuantParams, RandomKey, Rounding, Step, StepScalars,
    kernel::{SCRATCH_WORDS, rules::UpdateRule},
};

use crate::{
    Runner,
    check::{CUBES, target},
    formats::Subject,
};
use data::{Data, Scaled};

mod data;

/// The relative tolerance.
const TOLERANCE: f64 = 1e-6;

/// All texts in a language.
#[must_use]
pub fn texts(language: KernelLanguage) -> Vec<KernelText> {
    let ops = UpdateRule::ALL.map(UpdateRule::op).into_iter().chain([KernelOp::PREPARE_UPDATE]);
    let all = ops.flat_map(|op| [4, 1].map(|vector| text(op, language, vector)));
    all.collect()
}

fn text(op: KernelOp, language: KernelLanguage, vector: u32) -> KernelText {
    let text = device::kernel(op, &target(language, vector)).unwrap().expect("a text");
    assert_eq!(text.vector, vector);
    text
}

/// An update by a rule: on the CPU, and its launches.
struct Subjected {
    rule: UpdateRule,
    cpu: Box<dyn Fn(Buffers<'_>)>,
    launches: Vec<Launch>,
}

fn adam(eps: f64) -> Adam {
    let options = Adam::options(eps);
    let given = [("eps".to_string(), ConfigValue::Float(eps))];
    Adam::new(&Config::resolve(&options, given).unwrap()).unwrap()
}

/// The factor of steps and gradients, besides the spacing.
const AMOUNT: f32 = 1.5;

/// Every rule on a grid, in its update number `update`.
fn rules(subject: &Subject, blocks: &Scaled, data: &Data, update: u64) -> Vec<Subjected> {
    let shape = [data.w.len() as u64, 1];
    let info = ParamInfo::new("w", &shape[..]);
    let spec = FormatSpec::Minifloat(subject.grid.spec());
    let grid = Grid { spec: &spec, scales: blocks.scales() };
    let geometry = Codes::new(&subject.grid).unwrap();
    let smooth = Smooth::new(&subject.grid);
    // A learning rate in weight units, and one in codes.
    let keep = adam(1e-8).keep(&info, 3e-3);
    let (weights, codes) = (adam(1e-8).moments(3e-3, update), adam(1e-16).moments(0.4, update));
    let described = device::codes(grid, AMOUNT).unwrap().unwrap();
    let one = |rule, moments| vec![device::step(rule, keep, moments, described)];
    let plain = PlainStep { keep, moments: weights };
    let spacing = move |[scale, inverse]: [f32; 2]| Spacing { geometry, scale, unit: AMOUNT * inverse };
    let mean = MeanSpacing::new(geometry, &grid.scales, &data.w);
    let steps = move |pair| ScaledStep { keep, moments: codes, factor: spacing(pair) };
    let gradients = move |pair| ScaledGradient { keep, moments: weights, factor: spacing(pair) };
    let powers = move |[scale, _]: [f32; 2]| ScaledStep {
        keep,
        moments: weights,
        factor: mean.power(scale, 0.7, 1.5),
    };
    let subjected = |rule, launches, cpu| Subjected { rule, cpu, launches };
    let mut all = vec![
        subjected(UpdateRule::Plain, vec![plain.launch()], by_block(blocks, move |_| plain)),
        subjected(UpdateRule::Steps, one(UpdateRule::Steps, &codes), by_block(blocks, steps)),
        subjected(UpdateRule::Gradients, one(UpdateRule::Gradients, &weights), by_block(blocks, gradients)),
        subjected(
            UpdateRule::Power,
            device::power(&info, grid, (0.7, 1.5), keep, &weights).unwrap().unwrap(),
            by_block(blocks, powers),
        ),
        subjected(
            UpdateRule::Exp,
            one(UpdateRule::Exp, &codes),
            by_block(blocks, on_chart(keep, codes, geometry)),
        ),
        subjected(
            UpdateRule::Linear,
            one(UpdateRule::Linear, &codes),
            by_block(blocks, on_chart(keep, codes, Linear(geometry))),
        ),
    ];
    if let Some(chart) = smooth {
        let described = device::chart(grid).unwrap().unwrap();
        let one = |rule| vec![device::step(rule, keep, &codes, described)];
        let [exp, linear] = [
            by_block(blocks, on_chart(keep, codes, chart)),
            by_block(blocks, on_chart(keep, codes, Linear(chart))),
        ];
        all.push(subjected(UpdateRule::SmoothExp, one(UpdateRule::SmoothExp), exp));
        all.push(subjected(UpdateRule::SmoothLinear, one(UpdateRule::SmoothLinear), linear));
    }
    all
}

fn on_chart<C: Chart + Copy>(keep: f32, moments: Moments, chart: C) -> impl Fn([f32; 2]) -> OnChart<C> {
    move |[scale, inv_scale]| OnChart { keep, moments, chart, scale, inv_scale }
}

/// An update on the CPU, by the rule of each block.
fn by_block<R: altgrad_optimizer_kit::ElementRule>(
    blocks: &Scaled,
    rule: impl Fn([f32; 2]) -> R + 'static,
) -> Box<dyn Fn(Buffers<'_>)> {
    let blocks = blocks.clone();
    Box::new(move |buffers| buffers.update_blocks(&blocks.scales(), &rule))
}

fn on_cpu(subjected: &Subjected, data: &Data, update: u64) -> Data {
    let mut after = data.clone();
    let shape = [data.w.len() as u64, 1];
    (subjected.cpu)(
        Buffers::of(Step {
            info: ParamInfo::new("w", &shape[..]),
            param: &mut after.w,
            grad: &data.g,
            states: &mut [&mut after.m, &mut after.v],
            scalars: StepScalars::new(0.0, update),
            grid: None,
        })
        .unwrap(),
    );
    after
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}

/// Runs the launches of an update.
fn on_device(
    runner: &dyn Runner,
    (language, vector): (KernelLanguage, u32),
    launches: &[Launch],
    (blocks, data): (&Scaled, &Data),
) -> Data {
    let mut after = data.clone();
    let mut scratch = vec![0; SCRATCH_WORDS];
    for launch in launches {
        let text = text(launch.op, language, vector);
        let buffers = text.buffers.iter().map(|buffer| match (buffer.role, buffer.index) {
            (BufferRole::PARAM, _) => words(&after.w),
            (BufferRole::GRAD, _) => words(&data.g),
            (BufferRole::STATE, 0) => words(&after.m),
            (BufferRole::STATE, 1) => words(&after.v),
            (BufferRole::SCALES, _) => words(blocks.pairs.as_flattened()),
            (BufferRole::SCRATCH, _) => scratch.clone(),
            (role, index) => panic!("no such buffer here: {role:?} {index}"),
        });
        let found = runner.run(&text, CUBES, &launch.scalars, buffers.collect());
        for (buffer, found) in text.buffers.iter().zip(found) {
            match (buffer.role, buffer.index) {
                (BufferRole::PARAM, _) => after.w = floats(&found),
                (BufferRole::STATE, 0) => after.m = floats(&found),
                (BufferRole::STATE, 1) => after.v = floats(&found),
                (BufferRole::SCRATCH, _) => scratch = found,
                _ => {}
            }
        }
    }
    after
}

/// All rules on the grid of one format, with one scale and with several, with and without vectors.
pub fn agrees(runner: &dyn Runner, language: KernelLanguage, subject: &Subject) {
    let whole = [(1.0, 1), (0.37, 5)].map(|(scale, update)| (Scaled::whole(scale), update));
    for (blocks, update) in whole.into_iter().chain(Scaled::by_block().map(|blocks| (blocks, 3))) {
        let (broken, sound) = (Data::new(subject, &blocks, true), Data::new(subject, &blocks, false));
        let all = [(4, sound.clone()), (1, broken.clone().shorter()), (4, broken), (1, sound.shorter())];
        // NaN are not those of a scale: once for each vector is enough where there are several.
        let count = if blocks.pairs.len() == 1 { all.len() } else { 2 };
        for (vector, data) in all.into_iter().take(count) {
            for subjected in rules(subject, &blocks, &data, update) {
                let layout = (blocks.blocks, blocks.pairs[0]);
                let what = format!("{} {:?} {layout:?} vector {vector}", subject.name, subjected.rule);
                let expected = on_cpu(&subjected, &data, update);
                let found = on_device(runner, (language, vector), &subjected.launches, (&blocks, &data));
                same(&what, &data, &found, &expected, |i| subject.grid.max_finite() / blocks.scale(i));
                decisions(&what, subject, &blocks, &found.w, &expected.w);
            }
        }
    }
}

/// Equal scales of all blocks are bit-identical to one scale.
pub fn equal_scales_are_one(runner: &dyn Runner, language: KernelLanguage, subject: &Subject) {
    const SCALE: f32 = 0.37;
    let whole = Scaled::whole(SCALE);
    let data = Data::new(subject, &whole, false);
    for (vector, data) in [(4, data.clone()), (1, data.shorter())] {
        let run = |blocks: &Scaled| {
            let after = |subjected: Subjected| {
                let after = on_device(runner, (language, vector), &subjected.launches, (blocks, &data));
                (subjected.rule, [after.w, after.m, after.v].map(|values| words(&values)))
            };
            rules(subject, blocks, &data, 3).into_iter().map(after).collect::<Vec<_>>()
        };
        let expected = run(&whole);
        for blocks in Scaled::by_block() {
            for (found, expected) in run(&blocks.all_equal(SCALE)).into_iter().zip(&expected) {
                let what = format!("{} {:?} {:?} vector {vector}", subject.name, found.0, blocks.blocks);
                assert!(found == *expected, "{what}");
            }
        }
    }
}

fn same(what: &str, before: &Data, found: &Data, expected: &Data, end: impl Fn(usize) -> f32) {
    let close = |name: &str, i: usize, [a, x, y]: [f32; 3]| {
        let [a, x, y] = [a, x, y].map(f64::from);
        // At the largest code momentum is kept or lost: there a difference in the last place decides.
        let at_end = f64::from(expected.w[i] / end(i)).abs() > 1.0 - TOLERANCE;
        let either = name == "m" && at_end && (x == 0.0 || y == 0.0);
        let equal = (x.is_nan() && y.is_nan()) || x == y || either;
        let allowed = TOLERANCE * a.abs().max(y.abs()) + f64::from(f32::MIN_POSITIVE);
        assert!(equal || (x - y).abs() <= allowed, "{what}: {name}[{i}] from {a:e}: {x:e}, not {y:e}");
    };
    for i in 0..before.w.len() {
        close("w", i, [before.w[i], found.w[i], expected.w[i]]);
        close("m", i, [before.m[i], found.m[i], expected.m[i]]);
        close("v", i, [before.v[i], found.v[i], expected.v[i]]);
    }
}

/// The rounding that ends an update without master weights, on the results of a device and of the CPU, with the same
/// key.
///
/// Devices round as the CPU does, bit for bit (`tests/cuda.rs`, `tests/wgsl.rs`), so a decision depends on the value
/// alone. For a given random word rounding never falls as a value rises: it decides differently only where the word's
/// threshold lies between the two values, a millionth of a weight apart. Then the results are neighbours, and there are
/// as many as these gaps are wide in codes.
fn decisions(what: &str, subject: &Subject, blocks: &Scaled, found: &[f32], expected: &[f32]) {
    for rounding in [Rounding::NEAREST_EVEN, Rounding::STOCHASTIC] {
        let key = RandomKey { seed: 5, step: 3, tensor: 1, offset: 0 };
        let params = QuantParams { scales: blocks.scales(), rounding, key };
        let round = |x: &[f32]| {
            let mut y = vec![0.0; x.len()];
            subject.instance.fake_quant(x, &mut y, &params, &mut []).unwrap();
            y
        };
        let (x, y) = (round(found), round(expected));
        let (mut different, mut gaps) = (0.0, 0.0);
        for i in (0..x.len()).filter(|&i| !x[i].is_nan()) {
            let code = |w: f32| subject.grid.phi(f64::from(w * blocks.scale(i)));
            assert!(
                x[i] == y[i] || found[i] != expected[i],
                "{what}: equal values, [{i}] rounded differently"
            );
            let apart = (code(x[i]) - code(y[i])).abs();
            assert!(apart < 1.01, "{what}: [{i}] {} and {} are no neighbours", x[i], y[i]);
            different += apart.round();
            gaps += if found[i].is_finite() { (code(found[i]) - code(expected[i])).abs() } else { 0.0 };
        }
        assert!(
            different <= 2.0 + 4.0 * gaps,
            "{what} {rounding:?}: {different} of {} differ, gaps {gaps}",
            x.len()
        );
    }
}
