//! Kernels on buffers that are longer than their tensors, as CUDA allocates them: the result is that of an exact
//! buffer, bit for bit.
//!
//! Software Vulkan pads nothing, so that these tests make the buffers themselves, with NaN or 1e30 behind the end. A
//! device that does not answer is reported as skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use altgrad_config::PluginsSection;
use altgrad_end_to_end::{Random, stage};
use altgrad_engine::{
    cube_parts::{UNITS, cube_max, cube_sum},
    device::ComputeDevice,
    fused_ops::scale_kernel::ScaleOps,
    kernel_text::{PluginKernel, download, target, upload},
    metrics::{
        count_op::{CountCall, CountMemory, CountOps},
        ops::MetricOps,
        update_counts::Counting,
    },
    optimizer::device_op::{Faults, Kept, PreparedLaunch, UpdateCall, UpdateOps},
    quant::{
        DeviceFormat, FakeQuantParams, HistogramCollector, ScaleRule, ScaleSource, code_table::CodeTable,
        fake_quant::FakeQuantOps, histogram_kernel, product_kernel,
    },
};
use altgrad_loader::{FormatPlugin, OptimizerPlugin, Registry, instance::OptionTable};
use altgrad_plugin_api::{
    Domain, KernelTarget, ParamInfo, Rounding, StepScalars,
    grid::{MinifloatGrid, minifloat},
};
use burn::{backend::DispatchDevice, tensor::DType};
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::{prelude::*, zspace::metadata::Metadata};

use super::devices;

/// Elements: with and without vectors of four, in one cube and in several. None is a multiple of 128.
const LENS: [usize; 4] = [612, 611, 30_001, 30_004];
/// Values behind the end.
const TAILS: [f32; 2] = [f32::NAN, 1e30];
const TAIL: usize = 100;

fn cube(device: &ComputeDevice) -> &CubeDevice {
    let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else {
        panic!("{} is a GPU", device.label)
    };
    cube
}

/// A buffer of rows of `columns` values, each followed by `tail`.
struct Padding<'a> {
    device: &'a ComputeDevice,
    tail: &'a [f32],
}

impl Padding<'_> {
    fn flat(&self, values: &[f32]) -> CubeTensor {
        let buffer = upload::<CubeBackend>(
            cube(self.device),
            [values.len() + self.tail.len()].into(),
            [values, self.tail].concat(),
        );
        let meta = Metadata::new([values.len()], [1]);
        CubeTensor { meta: Box::new(meta), ..buffer }
    }

    fn rows(&self, values: &[f32], columns: usize) -> CubeTensor {
        let padded: Vec<f32> = values.chunks(columns).flat_map(|row| [row, self.tail].concat()).collect();
        let buffer = upload::<CubeBackend>(cube(self.device), [padded.len()].into(), padded);
        let meta = Metadata::new([values.len() / columns, columns], [columns + self.tail.len(), 1]);
        CubeTensor { meta: Box::new(meta), ..buffer }
    }
}

/// The bits of a tensor.
fn bits(tensor: CubeTensor) -> Vec<u32> {
    download::<CubeBackend>(tensor).unwrap().into_iter().map(f32::to_bits).collect()
}

/// Numbers of both signs up to 1, a few of them larger or zero.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    let size = |i: usize| [1.0, 4.0, 0.0, 1e-9][if i.is_multiple_of(17) { i % 4 } else { 0 }];
    (0..len).map(|i| (2.0 * random.unit() as f32 - 1.0) * size(i)).collect()
}

/// Compares the bits that `run` returns on exact buffers with those on padded ones, on all devices and lengths.
fn same_when_padded<R: PartialEq>(test: &str, run: impl Fn(&Padding<'_>, usize) -> R) {
    for device in devices(test) {
        for len in LENS {
            let expected = run(&Padding { device: &device, tail: &[] }, len);
            for tail in TAILS {
                let found = run(&Padding { device: &device, tail: &[tail; TAIL] }, len);
                assert!(found == expected, "{}: {len} elements, then {tail}", device.label);
            }
        }
    }
}

fn registry() -> Registry {
    let dir = Some(stage().join("plugins").display().to_string());
    Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap()
}

/// E4M3 on a device.
fn format(device: &ComputeDevice) -> Arc<DeviceFormat> {
    let plugin =
        FormatPlugin::make(&registry(), "test", "E4M3").unwrap_or_else(|(_, error)| panic!("{error}"));
    DeviceFormat::new(Arc::new(plugin), device, &[Rounding::NEAREST_EVEN]).unwrap()
}

#[test]
fn padding_has_no_moments() {
    same_when_padded("padding_has_no_moments", |padding, len| {
        let tensors = [len, 1, 5000].map(|len| padding.flat(&numbers(len as u64, len)));
        bits(CubeBackend::moments(tensors.into_iter().collect()))
    });
}

#[test]
fn padding_is_not_multiplied() {
    same_when_padded("padding_is_not_multiplied", |padding, len| {
        let tensors = [len, 1, 5000].map(|len| padding.flat(&numbers(len as u64, len)));
        let scaled = CubeBackend::scale(tensors.into_iter().collect(), 0.3);
        scaled.into_tensors().into_iter().map(bits).collect::<Vec<_>>()
    });
}

#[test]
fn scaled_operands_and_products_have_no_padding() {
    same_when_padded("scaled_operands_and_products_have_no_padding", |padding, len| {
        let exact = Padding { device: padding.device, tail: &[] };
        let [first, second] = [[3.0, 1.0 / 3.0], [0.7, 1e30]].map(|pair| exact.rows(&pair, 2));
        let x = numbers(1, len);
        let scaled = product_kernel::scaled(padding.flat(&x), first.clone(), DType::F32);
        // To rows of 4 or 3 elements with as much room behind them as the padding has.
        let columns = if len.is_multiple_of(4) { 4 } else { 3 };
        let whole = x.len() - x.len() % columns;
        let to = padding.rows(&vec![0.0; whole], columns);
        product_kernel::scaled_to(exact.rows(&x[..whole], columns), first.clone(), &to);
        assert!(bits(to) == bits(scaled.clone())[..whole], "{len}");
        let other = numbers(2, 5000);
        let scales = || [&first, &second].map(Clone::clone);
        let [rows] = product_kernel::unscaled([(padding.rows(&x[..whole], columns), scales())]);
        let [flat] = product_kernel::unscaled([(exact.flat(&x[..whole]), scales())]);
        assert!(bits(rows) == bits(flat), "{len}");
        let products = [(padding.flat(&x), scales()), (padding.flat(&other), scales())];
        let [scaled, unscaled, unscaled_too] = {
            let [one, two] = product_kernel::unscaled(products);
            [scaled, one, two].map(bits)
        };
        // As the chain of tensor operations on the CPU computes it.
        assert!(scaled.iter().zip(&x).all(|(y, x)| *y == (x * 3.0).to_bits()), "{len}");
        for (found, x) in [(&unscaled, &x), (&unscaled_too, &other)] {
            assert!(found.iter().zip(x).all(|(y, x)| *y == (x * (1.0 / 3.0) * 1e30).to_bits()), "{len}");
        }
        [scaled, unscaled, unscaled_too]
    });
}

#[test]
fn padding_does_not_agree() {
    same_when_padded("padding_does_not_agree", |padding, len| {
        let [a, b] = [1, 2].map(|seed| padding.flat(&numbers(seed, len)));
        bits(CubeBackend::agreement(a, b))
    });
}

#[test]
fn padding_is_not_counted_as_an_update() {
    let grid = MinifloatGrid::new(minifloat(4, 3, Domain::FN).unwrap()).unwrap();
    let counting = Counting::values().dead(1e-3, 3).codes(&grid, 0.37).unwrap().past();
    same_when_padded("padding_is_not_counted_as_an_update", |padding, len| {
        // Several updates in a launch, one of which remembers nothing.
        let lens = [len, 1, 5000];
        let memories = [(); 3].map(|()| CountMemory::default());
        let countings = [counting, Counting::values(), counting];
        let batch = |seed: u64| lens.iter().map(move |len| padding.flat(&numbers(seed + *len as u64, *len)));
        let updates = countings.into_iter().zip(memories.clone()).collect();
        let call = Arc::new(CountCall { updates });
        let [before, after, grads] = [1, 2, 3].map(|seed| batch(seed).collect());
        let (words, sums) = CubeBackend::count_updates(before, after, grads, call);
        (bits(words), bits(sums), memories.map(|memory| memory.read().unwrap()))
    });
}

#[test]
fn padding_is_not_in_histograms() {
    same_when_padded("padding_is_not_in_histograms", |padding, len| {
        let format = format(padding.device);
        let table = CodeTable::of(format.plugin(), format.decoded()).unwrap();
        let collector = HistogramCollector::new(format.values().codes());
        // Four groups, if they are of equal length.
        let groups = if len.is_multiple_of(4) { 4 } else { 1 };
        let exact = Padding { device: padding.device, tail: &[] };
        let [x, rounded] = [1, 2].map(|seed| padding.flat(&numbers(seed, len)));
        let scales = exact.rows(&[64.0, 1.0 / 64.0].repeat(groups), 2);
        let largest = exact.flat(&[4.0]);
        let counts = histogram_kernel::count([x, rounded, scales], (&largest, 0), Some(&table), (0, 0));
        collector.add_on_device(counts);
        let found = collector.histogram().unwrap();
        let total: u64 = found.codes.iter().sum();
        assert_eq!(total, len as u64, "every element has a code");
        (found.codes, format!("{:?}", found.powers))
    });
}

#[test]
fn padding_does_not_scale() {
    same_when_padded("padding_does_not_scale", |padding, len| {
        let rule = ScaleRule::max(448.0, 0, false, len.is_multiple_of(4).then_some(len / 4));
        let values = numbers(1, len);
        let flat = CubeBackend::scales(padding.flat(&values), rule);
        let rows =
            CubeBackend::scales(padding.rows(&values, if len.is_multiple_of(4) { 4 } else { len }), rule);
        assert_eq!(bits(flat.clone()), bits(rows));
        bits(flat)
    });
}

#[test]
fn padding_is_not_rounded() {
    same_when_padded("padding_is_not_rounded", |padding, len| {
        let format = format(padding.device);
        let params = FakeQuantParams { scale: ScaleSource::ONE, ..FakeQuantParams::unscaled(format) };
        let (values, params) = (numbers(1, len), Arc::new(params));
        let rows = padding.rows(&values, if len.is_multiple_of(4) { len / 4 } else { len });
        [padding.flat(&values), rows].map(|x| {
            let scales = upload::<CubeBackend>(cube(padding.device), [1, 2].into(), vec![1.0, 1.0]);
            let (values, words, sums) = CubeBackend::fake_quant(x, scales, params.clone());
            [values, words, sums].map(bits)
        })
    });
}

#[test]
fn padding_is_not_updated() {
    let values = toml::Table::new();
    let table = OptionTable { key: "optimizer", values: &values };
    let plugin =
        OptimizerPlugin::make(&registry(), "adamw", table).unwrap_or_else(|(_, error)| panic!("{error}"));
    same_when_padded("padding_is_not_updated", |padding, len| {
        let shape = [len as u64];
        let info = ParamInfo::new("weight", &shape);
        let launches = plugin.launches(&info, StepScalars::new(1e-3, 1), None).unwrap().unwrap();
        let target = target(&cube(padding.device).client()).unwrap();
        let kernel = |op, vector| {
            let text = plugin.kernel(op, &KernelTarget { vector, ..target.clone() }).unwrap().unwrap();
            Arc::new(PluginKernel::new(text))
        };
        let prepare = |launch: &altgrad_plugin_api::Launch| PreparedLaunch {
            kernels: [4, 1].map(|vector| kernel(launch.op, vector)),
            scalars: launch.scalars.to_vec(),
        };
        let faults = Faults::default();
        let states = vec![vec![0.0; len]; plugin.states(&info).unwrap().len()];
        let call = UpdateCall {
            launches: launches.iter().map(prepare).collect(),
            scales: vec![[1.0, 1.0]],
            kept: Arc::new(parking_lot::Mutex::new(Kept::new(states))),
            faults: faults.clone(),
        };
        let (kept, call) = (call.kept.clone(), Arc::new(call));
        let [param, grad] = [1, 2].map(|seed| padding.flat(&numbers(seed, len)));
        let updated = bits(CubeBackend::update(param, grad, call));
        assert_eq!(*faults.lock(), None);
        (updated, kept.lock().read().unwrap())
    });
}

/// In each round the sum of one number per unit, and their maximum, each times `UNITS`, for all rounds.
#[cube(launch)]
fn sums_in_a_loop(x: &[f32], y: &mut [f32], rounds: u32) {
    for round in 0..rounds {
        let own = x[UNIT_POS as usize] + f32::cast_from(round);
        let sum = cube_sum(own);
        let largest = cube_max(u32::cast_from(own));
        y[(round * UNITS + UNIT_POS) as usize] = sum + f32::cast_from(largest);
    }
}

/// A unit that is ahead must not write what a unit behind it still reads.
#[test]
fn sums_of_a_cube_may_be_taken_in_a_loop() {
    const ROUNDS: u32 = 20;
    for device in devices("sums_of_a_cube_may_be_taken_in_a_loop") {
        let x: Vec<f32> = (0..UNITS).map(|unit| unit as f32).collect();
        let all = (UNITS * ROUNDS) as usize;
        let flat = |values: Vec<f32>| upload::<CubeBackend>(cube(&device), [values.len()].into(), values);
        let (x, y) = (flat(x), flat(vec![0.0; all]));
        let (count, dim) = (CubeCount::new_1d(1), CubeDim::new_1d(UNITS));
        let out = y.clone().into_buffer_arg();
        sums_in_a_loop::launch(&cube(&device).client(), count, dim, x.into_buffer_arg(), out, ROUNDS);
        let found = download::<CubeBackend>(y).unwrap();
        let units = UNITS as f32;
        let expected =
            |round: usize| units * (units - 1.0) / 2.0 + units * round as f32 + units - 1.0 + round as f32;
        for (i, found) in found.into_iter().enumerate() {
            let round = i / UNITS as usize;
            assert_eq!(
                found,
                expected(round),
                "{}: round {round}, unit {}",
                device.label,
                i % UNITS as usize
            );
        }
    }
}
