//! Sites: scales that follow from earlier steps, and the statistics of other arithmetic than the formats' own.

use std::sync::Arc;

use altgrad_casts::{Range, Storage, ZeroBlock};
use altgrad_config::SteChoice;
use altgrad_engine::{
    device::ComputeDevice,
    quant::{
        Arithmetic, DelayedStart, DeviceFormat, FakeQuantParams, HistogramCollector, History, QuantStats,
        Role, ScaleRule, ScaleSource, Scaling, TensorQuantizer, fake_quant,
    },
};
use altgrad_plugin_api::Rounding;
use burn::tensor::{Tensor, TensorData};

use super::plugin;

/// The formats on the CPU.
struct Bench {
    device: ComputeDevice,
}

impl Bench {
    fn new() -> Self {
        Self { device: ComputeDevice::cpu() }
    }

    fn format(&self, name: &str) -> Arc<DeviceFormat> {
        let modes = [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY];
        DeviceFormat::new(Arc::new(plugin(name)), &self.device, &modes).unwrap()
    }

    fn site(&self, format: &str, scaling: Scaling) -> TensorQuantizer {
        let format = self.format(format);
        TensorQuantizer::new(
            "layer",
            Role::Weight,
            format,
            Rounding::NEAREST_EVEN,
            scaling,
            SteChoice::Identity,
        )
    }
}

/// The rule of E4M3.
fn e4m3() -> ScaleRule {
    ScaleRule::max(448.0, 0, false, None)
}

/// Delayed scaling uses the amax of earlier steps and never the current one; static scaling keeps that of the first
/// step.
#[test]
fn delayed_and_static_scales_follow_from_earlier_steps() {
    let bench = Bench::new();
    let site = |scaling| bench.site("E4M3", scaling);
    let stats = |amax| {
        let stats = altgrad_plugin_api::QuantStats { amax, ..Default::default() };
        QuantStats { elements: 1, stats, scale: None }
    };
    let new = |scaling| (site(scaling), History::default());
    let mut delayed = new(Scaling::Delayed { rule: e4m3(), window: 2, start: DelayedStart::default() });
    let mut frozen = new(Scaling::Static { rule: e4m3(), amax: None });
    for (amax, delayed_scale, frozen_scale) in [
        (2.0, 224.0, 224.0),
        (1.0, 224.0, 224.0),
        (1.0, 224.0, 224.0),
        (7.0, 448.0, 224.0),
        (1.0, 64.0, 224.0),
    ] {
        let used = |(site, history): &(TensorQuantizer, History)| match site.scale(history) {
            ScaleSource::Fixed([scale, _]) => scale,
            ScaleSource::Dynamic(rule) => rule.scale(amax)[0],
        };
        assert_eq!([used(&delayed), used(&frozen)], [delayed_scale, frozen_scale], "{amax}");
        for (site, history) in [&mut delayed, &mut frozen] {
            site.record_amax(&stats(amax), history);
        }
    }
}

/// A window that is shorter than the history, after a change of casts, uses the newest part.
#[test]
fn a_shorter_window_forgets_older_steps_at_once() {
    let site = Bench::new()
        .site("E4M3", Scaling::Delayed { rule: e4m3(), window: 1, start: DelayedStart::default() });
    let history = History { amax: [8.0, 1.0].into(), kept: 8.0 };
    assert_eq!(site.scale(&history), ScaleSource::Fixed([448.0, 1.0 / 448.0]));
}

/// While all recorded magnitudes are 0, the scale is 1: that of the tensor, or of the tensor above the blocks.
#[test]
fn a_past_of_zeros_gives_scale_one() {
    let bench = Bench::new();
    let zeros = History { amax: [0.0, 0.0].into(), kept: 0.0 };
    let plain = altgrad_casts::Scaling::default();
    let e8m0 = altgrad_casts::Scaling { storage: Storage::E8m0, zero: ZeroBlock::Smallest, ..plain };
    let two_levels = altgrad_casts::Scaling { storage: Storage::E4m3, tensor: true, ..plain };
    for keeps_over_zeros in [false, true] {
        let start = DelayedStart { first_is_one: true, keeps_over_zeros };
        let site = |scaling, group| {
            let range = Range { significand_bits: Some(1), ..Range::of(6.0, 6.0) };
            let rule = ScaleRule { range, scaling, group };
            bench.site("E2M1", Scaling::Delayed { rule, window: 2, start })
        };
        let (whole, blocks) = (site(e8m0, None), site(two_levels, Some(16)));
        for history in [History::default(), zeros.clone()] {
            assert_eq!(whole.scale(&history), ScaleSource::ONE);
            let x = TensorData::new(vec![0.5f32; 32], [32]);
            let x = Tensor::<1>::from_data(x, &bench.device.tensors);
            let rounded = fake_quant(x, blocks.fake_quant_params(Default::default(), &history)).values;
            let values: Vec<f32> = rounded.try_into_data().unwrap().try_into_vec().unwrap();
            assert!(values.iter().all(|x| (x - 0.5).abs() < 0.05), "{values:?}");
        }
    }
}

/// The deviation of a block does not follow from its largest magnitude.
#[test]
fn a_scale_of_deviations_is_not_reported() {
    let rms =
        altgrad_casts::Scaling { rule: altgrad_casts::Rule::Rms { deviations: 2.9 }, ..Default::default() };
    let site = |scaling| Bench::new().site("E4M3", Scaling::Dynamic(ScaleRule { scaling, ..e4m3() }));
    assert_eq!(site(rms).scale_for(2.0, &History::default()), None);
    assert_eq!(site(altgrad_casts::Scaling::default()).scale_for(2.0, &History::default()), Some(224.0));
}

/// Ties toward zero: 0.25 becomes 0, and its statistics and codes are those of 0.
#[test]
fn statistics_and_histograms_are_those_of_the_rounded_values() {
    let bench = Bench::new();
    let format = bench.format("E2M1");
    let histogram = Arc::new(HistogramCollector::new(format.values().codes()));
    let params = FakeQuantParams {
        rounding: Rounding::NEAREST_AWAY,
        arithmetic: Arithmetic { own: Some(altgrad_casts::Rounding::NearestZero), ..Arithmetic::default() },
        histogram: Some(histogram.clone()),
        ..FakeQuantParams::unscaled(format)
    };
    let x = TensorData::new(vec![0.25f32, -0.25, 1.25, 9.0], [4]);
    let rounded = fake_quant(Tensor::<1>::from_data(x, &bench.device.tensors), params);
    let values: Vec<f32> = rounded.values.try_into_data().unwrap().try_into_vec().unwrap();
    assert_eq!(values, [0.0, -0.0, 1.0, 6.0]);
    let stats = rounded.stats.read().unwrap().stats;
    assert_eq!([stats.underflow, stats.overflow, stats.nonzero], [2, 1, 4]);
    assert_eq!([stats.sum_err2, stats.sum_x_xhat], [0.125 + 0.0625 + 9.0, 1.25 + 54.0]);
    // Codes 0, -0, 1 and 6.
    let counts = histogram.histogram().unwrap().codes;
    assert_eq!([0, 8, 2, 7].map(|code: usize| counts[code]), [1; 4]);
}
