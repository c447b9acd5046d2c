//! Weights without master weights: a scale changes by its rule alone, and the mean of stochastic rounding is exact
//! (docs/numerics.md, section 5.4).

use std::sync::Arc;

use altgrad_config::{DeviceChoice, MasterWeightsChoice, PrecisionChoice, SteChoice};
use altgrad_engine::{
    device::ComputeDevice,
    quant::{
        DeviceFormat, QuantPlan, Quantizer, Role, ScaleChange, ScaleRule, Scaling, TensorQuantizer,
        end_of_range, target_on_grid,
    },
};
use altgrad_plugin_api::{Rounding, ValueGrid};
use burn::tensor::{Tensor, TensorData};

use super::plugin;

const LAYER: usize = 0;
const FORMATS: [&str; 5] = ["E1M6", "E3M4", "E4M3", "E5M2", "E7M0"];
/// The shipped formats that are no tables.
const MINIFLOATS: [&str; 16] = [
    "E0M7", "E1M6", "E2M1", "E2M3", "E2M5", "E3M2", "E3M4", "E4M3", "E5M2", "E5M6", "E5M10", "E6M1", "E7M0",
    "E8M7", "INT4", "INT8",
];
const ROUNDINGS: [Rounding; 2] = [Rounding::NEAREST_EVEN, Rounding::STOCHASTIC];

/// A weight that is stored in a format.
struct Weight {
    quant: Quantizer,
    grid: ValueGrid,
    shape: [usize; 2],
    values: Vec<f32>,
    device: ComputeDevice,
    step: u64,
}

/// A rule of scales, for the values of a format.
type MakeScaling = fn(rule: ScaleRule, grid: &ValueGrid) -> Scaling;

const FIXED: MakeScaling = |rule, _| Scaling::Stored { rule, change: ScaleChange::Never };
const POWER_OF_TWO: MakeScaling = |rule, grid| Scaling::Stored {
    rule: ScaleRule::max(end_of_range(grid), rule.scaling.margin, true, rule.group),
    change: ScaleChange::Hysteresis,
};
const DYNAMIC: MakeScaling = |rule, grid| {
    let (margin, group) = (rule.scaling.margin, rule.group);
    Scaling::Dynamic(ScaleRule::max(target_on_grid(grid, rule.range.target, margin), margin, false, group))
};

impl Weight {
    /// Rounds the initial values, in rows of `width`; `margin` and `group` are the rule's.
    fn new(
        format: &str,
        rounding: Rounding,
        (scaling, margin, group): (MakeScaling, i32, Option<usize>),
        (values, width): (Vec<f32>, usize),
    ) -> Self {
        let device = ComputeDevice::open(DeviceChoice::Cpu).unwrap();
        let format = DeviceFormat::new(Arc::new(plugin(format)), &device, &[rounding]).unwrap();
        let grid = format.values().clone();
        let rule = ScaleRule::max(grid.max_finite(), margin, false, group);
        let site = TensorQuantizer::new(
            "layer",
            Role::Weight,
            format,
            rounding,
            scaling(rule, &grid),
            SteChoice::Identity,
        );
        let plan = QuantPlan::new(vec![(LAYER, site)], MasterWeightsChoice::None, PrecisionChoice::Fp32, 1);
        let quant = plan.into();
        let shape = [values.len() / width, width];
        let mut weight = Self { quant, grid, shape, values, device, step: 0 };
        weight.update(|w, _| w);
        weight
    }

    /// Replaces each value by `change` of it and its spacing, and rounds it.
    fn update(&mut self, change: impl Fn(f32, f64) -> f32) {
        let scales: Vec<f64> = self.scales();
        let scale = |i: usize| scales.get(i * scales.len() / self.values.len()).copied().unwrap_or(1.0);
        let spacing = |i: usize, w: f32| self.grid.spacing(scale(i) * f64::from(w)) / scale(i);
        let changed: Vec<f32> =
            self.values.iter().enumerate().map(|(i, &w)| change(w, spacing(i, w))).collect();
        let value = Tensor::<2>::from_data(TensorData::new(changed, self.shape), &self.device.tensors);
        let rounded = self.quant.round_to_grid(LAYER, value, self.step);
        self.values = rounded.into_data().try_to_vec().unwrap();
        self.step += 1;
    }

    /// The scales of the last rounding; none before the first.
    fn scales(&self) -> Vec<f64> {
        let grid = self.quant.state.weight_grid(&self.quant.plan, LAYER, &self.shape).unwrap();
        grid.map_or(Vec::new(), |grid| grid.pairs.iter().map(|[scale, _]| f64::from(*scale)).collect())
    }
}

/// Values of a weight's usual size, of both signs.
fn initial(elements: usize) -> Vec<f32> {
    (0..elements).map(|i| (i as f32 * 0.7).sin() * 0.05 + (i as f32 * 1.3).cos() * 0.01).collect()
}

#[test]
fn updates_below_half_a_code_move_nothing_unless_the_scale_is_dynamic() {
    let cases = [
        (FIXED, 0, true),
        (FIXED, 2, true),
        (POWER_OF_TWO, 0, true),
        (POWER_OF_TWO, 1, true),
        (DYNAMIC, 0, false),
    ];
    for format in FORMATS {
        for (scaling, margin, stays) in cases {
            let scaling = (scaling, margin, None);
            let mut weight = Weight::new(format, Rounding::NEAREST_EVEN, scaling, (initial(256), 16));
            let (before, scales) = (weight.values.clone(), weight.scales());
            for _ in 0..150 {
                weight.update(|w, spacing| w + (0.1 * spacing).copysign(f64::from(w)) as f32);
            }
            assert_eq!(weight.values == before, stays, "{format}, margin {margin}");
            assert_eq!(weight.scales() == scales, stays, "{format}, margin {margin}");
        }
    }
}

/// The largest weight lies on a value of the grid: otherwise its rounding would change the scale, and with it all
/// weights.
#[test]
fn weights_without_updates_stay_under_a_dynamic_scale() {
    for (format, rounding) in
        ["E1M6", "INT4"].into_iter().flat_map(|format| ROUNDINGS.map(|rounding| (format, rounding)))
    {
        let mut weight = Weight::new(format, rounding, (DYNAMIC, 1, Some(32)), (initial(64), 64));
        let (before, scales) = (weight.values.clone(), weight.scales());
        for _ in 0..20 {
            weight.update(|w, _| w);
        }
        let close = |new: f64, old: f64| (new - old).abs() <= 1e-5 * old.abs();
        let mut values = weight.values.iter().zip(&before);
        assert!(values.all(|(new, old)| close((*new).into(), (*old).into())), "{format}, {rounding:?}");
        assert!(weight.scales().iter().zip(&scales).all(|(new, old)| close(*new, *old)), "{format}");
    }
}

/// Powers of two scale without an error, so that truncation has nothing to remove. Other scales exclude it.
#[test]
fn truncation_keeps_weights_without_updates_at_powers_of_two() {
    for format in MINIFLOATS {
        let scaling = (POWER_OF_TWO, 0, Some(32));
        let mut weight = Weight::new(format, Rounding::TOWARD_ZERO, scaling, (initial(64), 64));
        let before = weight.values.clone();
        for _ in 0..5 {
            weight.update(|w, _| w);
        }
        assert_eq!(weight.values, before, "{format}");
    }
}

#[test]
fn half_the_largest_value_is_on_most_grids() {
    for format in MINIFLOATS {
        let grid = plugin(format).values().unwrap();
        let target = target_on_grid(&grid, grid.max_finite(), 1);
        let expected = match format {
            // 63 of 64 steps, and 3 of 4.
            "E0M7" | "INT8" => 1.96875,
            "E1M6" => 3.9375,
            "INT4" => 1.5,
            _ => grid.max_finite(),
        };
        assert_eq!(target, expected, "{format}");
        // The limits of a format: its largest value, and its smallest.
        assert_eq!(target_on_grid(&grid, grid.max_finite(), -1), grid.max_finite() / 2.0, "{format}");
    }
    let int4 = plugin("INT4").values().unwrap();
    assert_eq!(target_on_grid(&int4, 1.75, 10), 256.0);
}

/// The mean over many equal weights follows the exact trajectory within five standard deviations, also where a scale
/// changes on the way.
#[test]
fn the_mean_of_stochastic_rounding_is_exact() {
    const ELEMENTS: usize = 1 << 16;
    const UPDATES: i32 = 200;
    for (format, significand_bits) in [("E3M4", 4), ("E4M3", 3), ("E5M2", 2)] {
        for (scaling, margin, changes) in [(FIXED, 4, false), (POWER_OF_TWO, 0, true)] {
            let scaling = (scaling, margin, None);
            let mut weight = Weight::new(format, Rounding::STOCHASTIC, scaling, (vec![1.0; ELEMENTS], 256));
            let mean =
                |weight: &Weight| weight.values.iter().map(|&w| f64::from(w)).sum::<f64>() / ELEMENTS as f64;
            let (start, scales) = (mean(&weight), weight.scales());
            let step = 0.1 * 2f64.powi(-significand_bits);
            for _ in 0..UPDATES {
                weight.update(|w, _| (f64::from(w) + step) as f32);
            }
            let expected = start + step * f64::from(UPDATES);
            // The variance of one rounding is a quarter of its spacing's square at most.
            let spacing = weight.grid.spacing(weight.scales()[0] * expected) / weight.scales()[0];
            let deviation = spacing / 2.0 * f64::from(UPDATES).sqrt() / (ELEMENTS as f64).sqrt();
            let error = (mean(&weight) - expected).abs();
            assert!(error < 5.0 * deviation, "{format}: {error} of {deviation}");
            assert_eq!(weight.scales() != scales, changes, "{format}");
        }
    }
}

#[test]
fn each_block_has_a_scale_of_its_own() {
    let (mut values, block) = (vec![0.01; 24], 4);
    values[20] = 0.5;
    let mut weight = Weight::new("E4M3", Rounding::NEAREST_EVEN, (POWER_OF_TWO, 0, Some(block)), (values, 8));
    let before = weight.scales();
    assert_eq!((before.len(), before[0], before[5]), (6, 32768.0, 512.0));
    weight.update(|w, _| if w > 0.1 { 4.0 * w } else { 1.5 * w });
    let after = weight.scales();
    // 0.015 * 32768 is beyond 448: the first blocks' scale is halved, the last one's divided by four.
    assert_eq!((after[0], after[5]), (16384.0, 128.0));
    weight.update(|w, _| w / 2.0);
    assert_eq!(weight.scales(), after, "a binade less keeps the scales");
    weight.update(|w, _| w / 4.0);
    assert!(weight.scales().iter().zip(&after).all(|(new, old)| *new >= 2.0 * old));
}
