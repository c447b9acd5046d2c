//! Quantized linear layers against a plain reference: round by search, dequantize, multiply in f64.
//!
//! The reference shares nothing with the host but the formats' tables of values. Needs the staged plugins:
//! `cargo xtask test` says where they are.

// Sums are only the roots of backward passes.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use altgrad_casts::LimitedSum;
use altgrad_config::{MasterWeightsChoice, PluginsSection, PrecisionChoice, SteChoice};
use altgrad_end_to_end::{Random, stage};
use altgrad_loader::{FormatPlugin, Registry};

use altgrad_engine::{
    device::ComputeDevice,
    quant::{
        CastObservers, DelayedStart, DeviceFormat, QuantPass, QuantPlan, QuantStats, Quantizer, Role,
        ScaleRule, Scaling, TensorQuantizer, cast, fake_quant,
        operand::{BackwardUses, Operand},
        product::product,
        saved_tensors::Encoding,
    },
    trace::TraceScope,
};
use altgrad_plugin_api::Rounding;
use burn::tensor::{Tensor, TensorData};

use super::devices;

const FORMATS: [&str; 11] =
    ["E0M7", "E1M6", "E2M1", "E2M5", "E3M2", "E3M4", "E4M3", "E5M2", "E6M1", "E7M0", "INT4"];
/// Of more than 8 bits.
const WIDE: [&str; 3] = ["E5M6", "E5M10", "E8M7"];
const TOKENS: usize = 12;
const INPUTS: usize = 16;
const OUTPUTS: usize = 8;
/// Elements of weight, activation and gradient.
const SIZES: [u64; 3] = [(OUTPUTS * INPUTS) as u64, (TOKENS * INPUTS) as u64, (TOKENS * OUTPUTS) as u64];
/// The layer's number.
const LAYER: usize = 0;

/// The formats on a device.
struct Bench {
    device: ComputeDevice,
    registry: Registry,
}

/// A role's rounding and its parameters for the reference.
#[derive(Clone)]
struct Rule {
    format: &'static str,
    scaling: Scaling,
    ste: SteChoice,
}

fn benches() -> Vec<Bench> {
    let dir = Some(stage().join("plugins").display().to_string());
    let plugins = PluginsSection { dir, ..PluginsSection::default() };
    let bench = |device| Bench { device, registry: Registry::open(&plugins).unwrap() };
    [ComputeDevice::cpu()].into_iter().chain(devices("quantized linear layers")).map(bench).collect()
}

impl Bench {
    fn plugin(&self, name: &str) -> FormatPlugin {
        FormatPlugin::make(&self.registry, "test", name).unwrap_or_else(|(_, error)| panic!("{error}"))
    }

    fn site(&self, role: Role, rule: &Rule) -> TensorQuantizer {
        let format =
            DeviceFormat::new(Arc::new(self.plugin(rule.format)), &self.device, &[Rounding::NEAREST_EVEN])
                .unwrap();
        TensorQuantizer::new("layer", role, format, Rounding::NEAREST_EVEN, rule.scaling, rule.ste)
    }

    /// The finite values of a format with their codes, ascending.
    fn values(&self, format: &str) -> Vec<(f64, usize)> {
        let plugin = self.plugin(format);
        let decoded = plugin.decode_all(&plugin.values().unwrap()).unwrap();
        let mut values: Vec<(f64, usize)> = decoded
            .iter()
            .enumerate()
            .filter(|(_, x)| x.is_finite())
            .map(|(code, x)| (f64::from(*x), code))
            .collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values
    }

    /// Rounded values, and whether each passes its gradient; blocks start again in each row of `width`.
    fn round(&self, rule: &Rule, x: &[f32], width: usize) -> (Vec<f64>, Vec<bool>) {
        let values = self.values(rule.format);
        let max = values.last().unwrap().0 as f32;
        let rounded = x.iter().zip(reference_scales(rule, x, width, max)).map(|(&x, scale)| {
            let nearest = nearest(&values, f64::from(x * scale)) as f32 * (1.0 / scale);
            let passes = match rule.ste {
                SteChoice::Identity => true,
                SteChoice::Clipped => (x * scale).abs() <= max * (1.0 + 1e-6),
                SteChoice::Relu => x > 0.0,
            };
            (f64::from(nearest), passes)
        });
        rounded.unzip()
    }

    /// The number of occurrences of each code.
    fn codes(&self, rule: &Rule, x: &[f32], width: usize) -> Vec<u64> {
        let values = self.values(rule.format);
        let max = values.last().unwrap().0 as f32;
        let mut counts = vec![0; values.len().next_power_of_two()];
        for (&x, scale) in x.iter().zip(reference_scales(rule, x, width, max)) {
            let nearest = nearest(&values, f64::from(x * scale));
            // Zero has a code of either sign.
            let of_sign = |v: &&(f64, usize)| v.0 == nearest && v.0.is_sign_negative() == (x < 0.0);
            counts[values.iter().find(of_sign).unwrap().1] += 1;
        }
        counts
    }
}

/// The scale of each element.
fn reference_scales(rule: &Rule, x: &[f32], width: usize, max: f32) -> Vec<f32> {
    let (row, group) = match rule.scaling {
        Scaling::Dynamic(ScaleRule { group: Some(group), .. }) => (width, group),
        _ => (x.len(), x.len()),
    };
    let groups = x.chunks(row).flat_map(|row| row.chunks(group));
    groups.flat_map(|x| vec![reference_scale(rule, x, max); x.len()]).collect()
}

fn reference_scale(rule: &Rule, x: &[f32], max: f32) -> f32 {
    let amax = x.iter().fold(0f32, |most, x| most.max(x.abs()));
    let (rule, amax) = match rule.scaling {
        Scaling::None => return 1.0,
        Scaling::Dynamic(rule) | Scaling::Delayed { rule, .. } => (rule, amax),
        Scaling::Static { rule, amax: given } => (rule, given.unwrap_or(amax)),
        Scaling::Stored { rule, .. } => (rule, amax),
    };
    let scale = max * 2f32.powi(-rule.scaling.margin) / amax;
    if rule.scaling.pow2 { 2f32.powi(scale.log2().floor() as i32) } else { scale }
}

/// The nearest value; of two as near, the one with the even code.
fn nearest(values: &[(f64, usize)], x: f64) -> f64 {
    let distance = |value: f64| (value - x).abs();
    let best = values.iter().map(|v| distance(v.0)).fold(f64::INFINITY, f64::min);
    let tied = values.iter().filter(|v| distance(v.0) == best);
    tied.min_by_key(|v| v.1 % 2).unwrap().0
}

/// Values of about unit size, none twice, with a fixed seed.
fn data(len: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    let mut uniform = || random.unit() as f32 - 0.5;
    (0..len).map(|_| (uniform() + uniform() + uniform()) * 2.0).collect()
}

/// `a [rows, inner]` times `b [inner, columns]`.
fn matmul(a: &[f64], b: &[f64], inner: usize) -> Vec<f64> {
    let columns = b.len() / inner;
    let row = |a: &[f64], column: usize| a.iter().enumerate().map(|(i, a)| a * b[i * columns + column]).sum();
    a.chunks(inner)
        .flat_map(|a| (0..columns).map(move |column| row(a, column)).collect::<Vec<f64>>())
        .collect()
}

fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    let rows = a.len() / columns;
    (0..columns).flat_map(|column| (0..rows).map(move |row| a[row * columns + column])).collect()
}

fn close(what: &str, found: &[f32], expected: &[f64]) {
    let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 2e-6 * largest, "{what}[{i}]: {found}, expected {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_data().unwrap().try_into_vec().unwrap()
}

/// Compares forward and backward of one layer: also on a step that collects histograms, and also as a device does it
/// that multiplies bf16 fast, where bf16 is available. Returns the statistics of the sites.
fn check(bench: &Bench, rules: &[(Role, Rule)]) -> Vec<Option<QuantStats>> {
    if bench.device.label != "wgpu" {
        check_once(bench, rules, false, (true, None));
    }
    let stats = check_once(bench, rules, false, (false, None));
    // Codes are added; with so many bits the sums are as good as those of f32.
    let wide_ranges = rules.iter().filter(|(_, rule)| rule.format == "E7M0").count();
    let has_blocks = |rule: &Rule| matches!(rule.scaling, Scaling::Dynamic(ScaleRule { group: Some(_), .. }));
    // Sums of two of its largest codes leave f32's range, so that a run is refused.
    if bench.device.label == "cpu"
        && wide_ranges < 2
        && !rules.iter().any(|(_, rule)| has_blocks(rule) || WIDE.contains(&rule.format))
    {
        let sum = LimitedSum {
            bits: 30,
            nearest: true,
            group: 32,
            promote: Some(64),
            promote_truncates: false,
            exact: None,
        };
        check_once(bench, rules, false, (false, Some(sum)));
    }
    assert_eq!(check_once(bench, rules, true, (false, None)), stats, "histograms change the statistics");
    stats
}

fn check_once(
    bench: &Bench,
    rules: &[(Role, Rule)],
    with_histograms: bool,
    (fast_bf16, sum): (bool, Option<LimitedSum>),
) -> Vec<Option<QuantStats>> {
    let what = format!(
        "{} fast bf16 {fast_bf16} {sum:?} {:?}",
        bench.device.label,
        rules.iter().map(|(role, rule)| (role, rule.format, rule.scaling, rule.ste)).collect::<Vec<_>>()
    );
    let (x, w, g) = (data(TOKENS * INPUTS, 1), data(OUTPUTS * INPUTS, 2), data(TOKENS * OUTPUTS, 3));
    let sites = rules.iter().map(|(role, rule)| (LAYER, bench.site(*role, rule))).collect();
    let plan = QuantPlan::new(sites, MasterWeightsChoice::Fp32, PrecisionChoice::Fp32, 0);
    let quant = Quantizer::from(plan.with_fast_bf16(fast_bf16).with_sum(sum));
    let histograms = if with_histograms { quant.collectors(true) } else { Vec::new() };
    let observers = CastObservers { histograms: &histograms, ..CastObservers::default() };
    let pass = QuantPass::observed(&quant, observers);
    let tensor = |values: &[f32], shape: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), &bench.device.tensors)
    };
    let tracked = |values: &[f32], shape| Tensor::from_inner(tensor(values, shape)).require_grad();
    let (xt, wt) = (tracked(&x, [TOKENS, INPUTS]), tracked(&w, [OUTPUTS, INPUTS]));
    let y = pass.linear(LAYER, xt.clone(), wt.clone(), 0, TraceScope::OFF);
    // A loss whose gradient at y is g.
    let loss = (y.clone() * Tensor::from_inner(tensor(&g, [TOKENS, OUTPUTS]))).sum();
    let tape = loss.backward();
    pass.end_backward(&tape);
    let stats = pass.read_stats().unwrap();
    let histograms: Vec<_> = histograms.iter().map(|collector| collector.histogram().unwrap()).collect();
    assert_eq!(histograms.len(), if with_histograms { rules.len() } else { 0 });
    for ((role, rule), histogram) in rules.iter().zip(histograms) {
        let (values, width) = match role {
            Role::Weight => (&w, INPUTS),
            Role::Activation => (&x, INPUTS),
            Role::Grad => (&g, OUTPUTS),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(histogram.codes, bench.codes(rule, values, width), "{what}: codes of {role:?}");
        assert_eq!(histogram.powers.count, values.len() as f64, "{what}");
    }

    let rounded = |role, values: &[f32], width| match rules.iter().find(|(r, _)| *r == role) {
        Some((_, rule)) => bench.round(rule, values, width),
        None => (values.iter().map(|x| f64::from(*x)).collect(), vec![true; values.len()]),
    };
    let ((xq, x_passes), (wq, w_passes), (gq, _)) = (
        rounded(Role::Activation, &x, INPUTS),
        rounded(Role::Weight, &w, INPUTS),
        rounded(Role::Grad, &g, OUTPUTS),
    );
    let blocked = |grad: Vec<f64>, passes: &[bool]| -> Vec<f64> {
        grad.iter().zip(passes).map(|(grad, passes)| if *passes { *grad } else { 0.0 }).collect()
    };
    close(&format!("{what}: y"), &read(y.inner()), &matmul(&xq, &transposed(&wq, INPUTS), INPUTS));
    let dx = blocked(matmul(&gq, &wq, OUTPUTS), &x_passes);
    close(&format!("{what}: dx"), &read(xt.grad(&tape).unwrap()), &dx);
    let dw = blocked(matmul(&transposed(&gq, OUTPUTS), &xq, TOKENS), &w_passes);
    close(&format!("{what}: dw"), &read(wt.grad(&tape).unwrap()), &dw);
    stats
}

/// A rule whose target is filled in later.
fn scale_rule(margin: i32, pow2: bool, group: Option<usize>) -> ScaleRule {
    ScaleRule::max(1.0, margin, pow2, group)
}

/// A rule with the format's own largest value filled in.
fn rule(bench: &Bench, format: &'static str, scaling: Scaling, ste: SteChoice) -> Rule {
    let max_finite = bench.values(format).last().unwrap().0 as f32;
    let own =
        |rule: ScaleRule| ScaleRule::max(max_finite, rule.scaling.margin, rule.scaling.pow2, rule.group);
    let scaling = match scaling {
        Scaling::None => Scaling::None,
        Scaling::Dynamic(rule) => Scaling::Dynamic(own(rule)),
        Scaling::Delayed { rule, window, start } => Scaling::Delayed { rule: own(rule), window, start },
        Scaling::Static { rule, amax } => Scaling::Static { rule: own(rule), amax },
        Scaling::Stored { rule, change } => Scaling::Stored { rule: own(rule), change },
    };
    Rule { format, scaling, ste }
}

#[test]
fn layers_are_exact_for_every_pair_of_formats() {
    for bench in benches() {
        for weight in FORMATS {
            for other in FORMATS {
                let rule = |format| {
                    rule(&bench, format, Scaling::Dynamic(scale_rule(0, false, None)), SteChoice::Identity)
                };
                let rules = [
                    (Role::Weight, rule(weight)),
                    (Role::Activation, rule(other)),
                    (Role::Grad, rule(other)),
                ];
                let stats = check(&bench, &rules);
                let elements: Vec<u64> = stats.iter().map(|stats| stats.unwrap().elements).collect();
                assert_eq!(elements, SIZES);
            }
        }
    }
}

#[test]
fn layers_are_exact_with_every_single_role_rounded_and_with_none() {
    for bench in benches() {
        check(&bench, &[]);
        for role in Role::FIRST_USES {
            check(
                &bench,
                &[(
                    role,
                    rule(&bench, "E5M2", Scaling::Dynamic(scale_rule(0, false, None)), SteChoice::Identity),
                )],
            );
        }
    }
}

#[test]
fn layers_are_exact_for_every_scaling_and_estimator() {
    let scalings = [
        Scaling::None,
        Scaling::Dynamic(scale_rule(0, false, None)),
        Scaling::Dynamic(scale_rule(0, true, None)),
        Scaling::Dynamic(scale_rule(2, false, None)),
        // Saturates: the clipped estimator has something to block.
        Scaling::Dynamic(scale_rule(-1, false, None)),
        Scaling::Dynamic(scale_rule(0, false, Some(INPUTS))),
        Scaling::Dynamic(scale_rule(-1, false, Some(4))),
        Scaling::Dynamic(scale_rule(0, true, Some(2))),
        // Blocks that divide no row, and one longer than any.
        Scaling::Dynamic(scale_rule(0, false, Some(3))),
        Scaling::Dynamic(scale_rule(-1, false, Some(5))),
        Scaling::Dynamic(scale_rule(0, false, Some(100))),
        Scaling::Delayed { rule: scale_rule(0, false, None), window: 4, start: DelayedStart::default() },
        Scaling::Static { rule: scale_rule(0, false, None), amax: Some(1.0) },
        Scaling::Static { rule: scale_rule(0, false, None), amax: None },
    ];
    for bench in benches() {
        for scaling in scalings {
            for ste in [SteChoice::Identity, SteChoice::Clipped, SteChoice::Relu] {
                let rule = |format| rule(&bench, format, scaling, ste);
                let rules = [
                    (Role::Weight, rule("E4M3")),
                    (Role::Activation, rule("E3M4")),
                    (Role::Grad, rule("E5M2")),
                ];
                let elements: Vec<u64> =
                    check(&bench, &rules).iter().map(|stats| stats.unwrap().elements).collect();
                assert_eq!(elements, SIZES);
            }
        }
    }
}

/// Every device computes bit-identical scales: divisions near the ends of f32's range and of all significands.
#[test]
fn dynamic_scaling_is_the_same_on_every_device() {
    let benches = benches();
    for format in FORMATS.into_iter().chain(WIDE) {
        for exponent in [-149, -140, -127, -126, -60, -3, 0, 5, 63, 100, 126] {
            for (pow2, margin, group) in [(false, 0, None), (false, 3, Some(8)), (true, -2, Some(4))] {
                let unit = 2f64.powi(exponent);
                let x: Vec<f32> = data(64, 9).into_iter().map(|x| (f64::from(x) * unit) as f32).collect();
                let results = benches.iter().map(|bench| {
                    let scaling = Scaling::Dynamic(scale_rule(margin, pow2, group));
                    let site = bench.site(Role::Weight, &rule(bench, format, scaling, SteChoice::Identity));
                    let tensor =
                        Tensor::<1>::from_data(TensorData::new(x.clone(), [64]), &bench.device.tensors);
                    let params = site.fake_quant_params(Default::default(), &Default::default());
                    let values = read(fake_quant(tensor, params).values);
                    (bench, values.into_iter().map(f32::to_bits).collect::<Vec<u32>>())
                });
                let results: Vec<_> = results.collect();
                for (bench, values) in &results {
                    assert_eq!(values, &results[0].1, "{format} 2^{exponent} on {}", bench.device.label);
                }
            }
        }
    }
}

/// bf16 operands: a plain product of operands cut to eight significand bits, gradients' too; rounded ones stay as they
/// are.
#[test]
fn unrounded_operands_and_gradients_are_rounded_to_bf16() {
    let bf16 = |x: &[f32]| -> Vec<f64> {
        let round = |x: f32| {
            let ulp = 2f32.powi(x.abs().log2().floor() as i32 - 7);
            f64::from((x / ulp).round_ties_even() * ulp)
        };
        x.iter().map(|&x| round(x)).collect()
    };
    let bench = benches().remove(0);
    let (x, w, g) = (data(TOKENS * INPUTS, 1), data(OUTPUTS * INPUTS, 2), data(TOKENS * OUTPUTS, 3));
    let tensor = |values: &[f32], shape: [usize; 2]| {
        Tensor::from_inner(Tensor::<2>::from_data(
            TensorData::new(values.to_vec(), shape),
            &bench.device.tensors,
        ))
    };
    let weight = rule(&bench, "E4M3", Scaling::Dynamic(scale_rule(0, false, None)), SteChoice::Identity);
    for (rounded, fast) in [(false, false), (true, false), (false, true), (true, true)] {
        let sites = if rounded { vec![(LAYER, bench.site(Role::Weight, &weight))] } else { Vec::new() };
        let plan = QuantPlan::new(sites, MasterWeightsChoice::Fp32, PrecisionChoice::Bf16, 0);
        let quant = Quantizer::from(plan.with_fast_bf16(fast));
        let (xt, wt) =
            (tensor(&x, [TOKENS, INPUTS]).require_grad(), tensor(&w, [OUTPUTS, INPUTS]).require_grad());
        let y = QuantPass::new(&quant).linear(LAYER, xt.clone(), wt.clone(), 0, TraceScope::OFF);
        let tape = (y.clone() * tensor(&g, [TOKENS, OUTPUTS])).sum().backward();
        let wq = if rounded { bench.round(&weight, &w, INPUTS).0 } else { bf16(&w) };
        let (xq, gq) = (bf16(&x), bf16(&g));
        close("y", &read(y.inner()), &matmul(&xq, &transposed(&wq, INPUTS), INPUTS));
        close("dx", &read(xt.grad(&tape).unwrap()), &matmul(&gq, &wq, OUTPUTS));
        close("dw", &read(wt.grad(&tape).unwrap()), &matmul(&transposed(&gq, OUTPUTS), &xq, TOKENS));
    }
}

/// Every value of these formats is exact in bf16, but for E5M10's; products of the largest ones of E7M0 and E8M7 are
/// beyond f32.
#[test]
fn formats_exact_in_bf16_are_multiplied_as_bf16() {
    let bench = benches().remove(0);
    for name in FORMATS.into_iter().chain(WIDE) {
        let rule = rule(&bench, name, Scaling::None, SteChoice::Identity);
        let encoding = Encoding::Codes(bench.site(Role::Weight, &rule).format.clone());
        assert_eq!(encoding.fits_bf16(), !["E5M10", "E7M0", "E8M7"].contains(&name), "{name}");
    }
    assert!(Encoding::Bf16.fits_bf16() && !Encoding::F32.fits_bf16());
}

/// Gradients of operands saved as codes are bit-identical to those of operands saved as f32.
#[test]
fn operands_saved_as_codes_are_exact() {
    let bench = benches().remove(0);
    let tracked = |values: Vec<f32>, shape: [usize; 2]| {
        let tensor = Tensor::<2>::from_data(TensorData::new(values, shape), &bench.device.tensors);
        Tensor::from_inner(tensor).require_grad()
    };
    for name in FORMATS.into_iter().chain(WIDE) {
        for (unit, group) in [(1.0, None), (1e-6, Some(16)), (1e9, Some(4)), (1e-38, None), (0.0, None)] {
            let scaling = Scaling::Dynamic(scale_rule(0, false, group));
            let rule = rule(&bench, name, scaling, SteChoice::Identity);
            let site = bench.site(Role::Weight, &rule);
            let zero = Tensor::<1>::zeros([1], &bench.device.tensors);
            let gradients = |encoded: bool| {
                let scaled = |len, seed| data(len, seed).into_iter().map(|x| x * unit).collect();
                let leaves = [
                    tracked(scaled(TOKENS * INPUTS, 1), [TOKENS, INPUTS]),
                    tracked(scaled(OUTPUTS * INPUTS, 2), [OUTPUTS, INPUTS]),
                ];
                let [x, w] = leaves.clone().map(|leaf| {
                    let params = site.fake_quant_params(Default::default(), &Default::default());
                    let rounded = cast(leaf, params.into());
                    let encoding = if encoded { Encoding::Codes(site.format.clone()) } else { Encoding::F32 };
                    Operand {
                        values: rounded.values,
                        scales: Some(rounded.scales),
                        encoding,
                        codes: None,
                        in_bf16: None,
                    }
                });
                let (y, _) = product(x, w, BackwardUses::default(), (false, None), (None, &zero));
                let tape = (y.clone() * y).sum().backward();
                leaves.map(|leaf| {
                    read(leaf.grad(&tape).unwrap()).into_iter().map(f32::to_bits).collect::<Vec<_>>()
                })
            };
            assert!(!site.format.decoded().is_empty(), "{name}");
            assert_eq!(gradients(true), gradients(false), "{name} {unit} {group:?}");
        }
    }
}
