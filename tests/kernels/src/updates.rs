//! Update kernels against `optimizer-kit`'s rules: all rules, on the grids of all formats.
//!
//! Devices may contract to fma, and WGSL's division and root are not exact, so values agree to a millionth: of a weight before or after
//! (whichever is larger, for a step may end near zero), of a moment likewise.

use std::sync::LazyLock;

use altgrad_optimizer_kit::{
    Adam, Buffers,
    codes::Codes,
    device,
    rule::{Linear, MeanSpacing, OnChart, Plain, ScaledGradient, ScaledStep, Spacing},
    smooth::Smooth,
};
use altgrad_plugin_api::{
    BufferRole, Config, ConfigValue, FormatSpec, Grid, KernelLanguage, KernelOp, KernelText, Launch,
    ParamInfo, QuantParams, RandomKey, Rounding, Scales, Step, StepScalars,
    kernel::{SCRATCH_WORDS, rules::Rule, table::Text},
};

use crate::{
    Runner,
    cases::Random,
    check::{CUBES, target},
    formats::Subject,
};

#[rustfmt::skip]
#[path = "../../../plugins/optimizers/adamw/src/kernel_texts.rs"]
mod adamw;
#[rustfmt::skip]
#[path = "../../../plugins/optimizers/fp8-manifold/src/kernel_texts.rs"]
mod fp8_manifold;
#[rustfmt::skip]
#[path = "../../../plugins/optimizers/stiffness-adamw/src/kernel_texts.rs"]
mod stiffness_adamw;

/// The committed texts of all optimizers; what several have is in each.
static TEXTS: LazyLock<Vec<Text>> =
    LazyLock::new(|| [adamw::TEXTS, fp8_manifold::TEXTS, stiffness_adamw::TEXTS].concat());

/// What agrees to a millionth.
const TOLERANCE: f64 = 1e-6;

/// All texts in a language.
#[must_use]
pub fn texts(language: KernelLanguage) -> Vec<KernelText> {
    let ops = Rule::ALL.map(Rule::op).into_iter().chain([KernelOp::PREPARE_UPDATE]);
    let all = ops.flat_map(|op| [4, 1].map(|vector| text(op, language, vector)));
    all.collect()
}

fn text(op: KernelOp, language: KernelLanguage, vector: u32) -> KernelText {
    let text = device::kernel(&TEXTS, op, &target(language, vector)).unwrap().expect("a text");
    assert_eq!(text.vector, vector);
    text
}

/// A parameter with its gradient and moments.
#[derive(Debug, Clone)]
pub struct Data {
    w: Vec<f32>,
    g: Vec<f32>,
    m: Vec<f32>,
    v: Vec<f32>,
}

impl Data {
    /// Weights on all codes, between them, at and beyond the ends, below the smallest, and zeros of both signs; moments that
    /// point as the gradient does; if `broken`, a NaN in each place, and infinities.
    fn new(subject: &Subject, scale: f32, broken: bool) -> Self {
        let (grid, mut random) = (&subject.grid, Random(11));
        let mut w = vec![0.0, -0.0, 1e-30, -1e-30];
        for code in 0..=grid.max_code() {
            let value = grid.decode(code);
            for x in [value, value.next_up(), value * 1.3, value * 0.71] {
                w.extend([x / scale, -x / scale]);
            }
        }
        let len = (w.len() + 300).next_multiple_of(4);
        let top = f64::from(grid.max_finite()).log2();
        w.extend((w.len()..len).map(|_| {
            // Any binade of the format, and some below.
            let binades = top - f64::from(grid.emin()) + 10.0;
            let exponent = top - binades * (random.bits() >> 11) as f64 * 2f64.powi(-53);
            (exponent.exp2() / f64::from(scale)) as f32 * random.normal().signum()
        }));
        let mut unit = || (random.bits() >> 40) as f32 / (1u64 << 24) as f32 + 1e-3;
        let (mut g, mut m, mut v) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..len {
            let sign = if i % 3 == 0 { -1.0 } else { 1.0 };
            let size = 10f32.powi(i as i32 % 5 - 3);
            g.push(sign * size * unit());
            m.push(sign * size * unit());
            v.push(size * size * unit());
        }
        // Elements without gradient, and without any past.
        (g[9], g[10], m[10], v[10]) = (0.0, 0.0, 0.0, 0.0);
        if broken {
            (w[20], g[21], m[22], v[23]) = (f32::NAN, f32::NAN, f32::NAN, f32::NAN);
            (g[24], m[25]) = (f32::INFINITY, f32::NEG_INFINITY);
        }
        Self { w, g, m, v }
    }

    /// All but the last, so that the length is no multiple of four.
    fn shorter(mut self) -> Self {
        for values in [&mut self.w, &mut self.g, &mut self.m, &mut self.v] {
            values.pop();
        }
        self
    }
}

/// An update by a rule: on the CPU, and its launches.
struct Subjected {
    rule: Rule,
    cpu: Box<dyn Fn(Buffers<'_>)>,
    launches: Vec<Launch>,
}

fn adam(eps: f64) -> Adam {
    let options = Adam::options(eps);
    let given = [("eps".to_string(), ConfigValue::Float(eps))];
    Adam::new(&Config::resolve(&options, given).unwrap()).unwrap()
}

/// Every rule on a grid, in its update number `update`.
fn rules(subject: &Subject, scale: f32, data: &Data, update: u64) -> Vec<Subjected> {
    let shape = [data.w.len() as u64, 1];
    let info = ParamInfo::new("w", &shape[..]);
    let spec = FormatSpec::Minifloat(subject.grid.spec());
    let pair = [scale, 1.0 / scale];
    let grid = Grid { spec: &spec, scales: Scales::whole(&pair) };
    let geometry = Codes::new(&subject.grid).unwrap();
    let smooth = Smooth::new(&subject.grid);
    let [_, unit] = pair;
    // A learning rate in weight units, and one in codes.
    let keep = adam(1e-8).keep(&info, 3e-3);
    let (weights, codes) = (adam(1e-8).moments(3e-3, update), adam(1e-16).moments(0.4, update));
    let described = device::codes(grid, f32::recip).unwrap().unwrap();
    let one = |rule, moments| vec![device::step(rule, keep, moments, described)];
    let plain = Plain { keep, moments: weights };
    let factor = Spacing { geometry, scale, unit };
    let power = MeanSpacing::new(geometry, &grid.scales, &data.w).power(scale, 0.7, 1.5);
    let steps = ScaledStep { keep, moments: codes, factor };
    let gradients = ScaledGradient { keep, moments: weights, factor };
    let powers = ScaledStep { keep, moments: weights, factor: power };
    let exp = OnChart { keep, moments: codes, chart: geometry, scale, inv_scale: unit };
    let linear = OnChart { keep, moments: codes, chart: Linear(geometry), scale, inv_scale: unit };
    let mut all = vec![
        subjected(Rule::Plain, plain, vec![plain.launch()]),
        subjected(Rule::Steps, steps, one(Rule::Steps, &codes)),
        subjected(Rule::Gradients, gradients, one(Rule::Gradients, &weights)),
        subjected(
            Rule::Power,
            powers,
            device::power(&info, grid, (0.7, 1.5), keep, &weights).unwrap().unwrap(),
        ),
        subjected(Rule::Exp, exp, one(Rule::Exp, &codes)),
        subjected(Rule::Linear, linear, one(Rule::Linear, &codes)),
    ];
    if let Some(chart) = smooth {
        let described = device::chart(grid).unwrap().unwrap();
        let one = |rule| vec![device::step(rule, keep, &codes, described)];
        let exp = OnChart { keep, moments: codes, chart, scale, inv_scale: unit };
        let linear = OnChart { keep, moments: codes, chart: Linear(chart), scale, inv_scale: unit };
        all.push(subjected(Rule::SmoothExp, exp, one(Rule::SmoothExp)));
        all.push(subjected(Rule::SmoothLinear, linear, one(Rule::SmoothLinear)));
    }
    all
}

fn subjected<R: altgrad_optimizer_kit::Rule + 'static>(
    rule: Rule,
    cpu: R,
    launches: Vec<Launch>,
) -> Subjected {
    Subjected { rule, cpu: Box::new(move |buffers| buffers.update(&cpu)), launches }
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
            scalars: StepScalars { lr: 0.0, update },
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
    data: &Data,
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

/// All rules on the grid of one format, with and without vectors.
pub fn agrees(runner: &dyn Runner, language: KernelLanguage, subject: &Subject) {
    for (scale, update) in [(1.0, 1), (0.37, 5)] {
        let (broken, sound) = (Data::new(subject, scale, true), Data::new(subject, scale, false));
        for (vector, data) in
            [(4, broken.clone()), (4, sound.clone()), (1, broken.shorter()), (1, sound.shorter())]
        {
            for subjected in rules(subject, scale, &data, update) {
                let what = format!("{} {:?} scale {scale} vector {vector}", subject.name, subjected.rule);
                let expected = on_cpu(&subjected, &data, update);
                let found = on_device(runner, (language, vector), &subjected.launches, &data);
                same(&what, &data, &found, &expected, subject.grid.max_finite() / scale);
                decisions(&what, subject, scale, &found.w, &expected.w);
            }
        }
    }
}

fn same(what: &str, before: &Data, found: &Data, expected: &Data, end: f32) {
    let close = |name: &str, i: usize, [a, x, y]: [f32; 3]| {
        let [a, x, y] = [a, x, y].map(f64::from);
        // At the largest code momentum is kept or lost: there a difference in the last place decides.
        let at_end = f64::from(expected.w[i] / end).abs() > 1.0 - TOLERANCE;
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

/// The rounding that ends an update without master weights, on what a device and the CPU have made, with the same key.
///
/// Devices round as the CPU does, bit for bit (`tests/cuda.rs`, `tests/wgsl.rs`), so a decision depends on the value alone. For a given
/// random word rounding never falls as a value rises: it decides differently only where the word's threshold lies between the
/// two values, a millionth of a weight apart. Then the results are neighbours, and there are as many as these gaps are wide in codes.
fn decisions(what: &str, subject: &Subject, scale: f32, found: &[f32], expected: &[f32]) {
    for rounding in [Rounding::NEAREST_EVEN, Rounding::STOCHASTIC] {
        let key = RandomKey { seed: 5, step: 3, tensor: 1, offset: 0 };
        let pair = [scale, 1.0 / scale];
        let params = QuantParams { scales: Scales::whole(&pair), rounding, key };
        let round = |x: &[f32]| {
            let mut y = vec![0.0; x.len()];
            subject.instance.fake_quant(x, &mut y, &params, &mut []).unwrap();
            y
        };
        let (x, y) = (round(found), round(expected));
        let (mut different, mut gaps) = (0.0, 0.0);
        for i in (0..x.len()).filter(|&i| !x[i].is_nan()) {
            let code = |w: f32| subject.grid.phi(f64::from(w * scale));
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
