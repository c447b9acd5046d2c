//! The casts of all shipped recipes on GPUs, and roundings that no recipe has: values, scales and counts have the bits
//! of the CPU's, and no cast goes through main memory.
//!
//! A device that does not answer is reported as skipped. Needs the staged plugins: `cargo xtask test-gpu` says where
//! they are.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{PluginsSection, RECIPES};
use altgrad_end_to_end::{Random, stage};
use altgrad_engine::{
    device::ComputeDevice,
    model::{Layout, layout::GptShape},
    quant::{CastParams, History, QuantPlan, QuantStats, Role, Rotation, TensorQuantizer, cast},
    setup::rounding_of,
    tensor,
};
use altgrad_loader::Registry;
use altgrad_plugin_api::RandomKey;
use burn::tensor::{Tensor, TensorData};

use super::devices;

/// Recipes that a GPU refuses: casts of whole matrices, or sums of limited width.
const REFUSED: [&str; 5] = ["averis", "deepseek_v3_hopper", "hifloat4", "quartet2", "tetrajet_v2"];
/// Casts of weights that no recipe has: the format, and the section `[quant.cast.weight]`.
const OTHERS: [(&str, &str); 6] = [
    ("E3M4", "rounding = \"nearest-up\"\nblock = 32\n"),
    ("E5M2", "rounding = \"nearest-zero\"\n"),
    ("E2M1", "rounding = \"stochastic\"\nrandom_bits = 2\nblock = 16\n"),
    ("E4M3", "rounding = \"stochastic\"\nrandom_bits = 5\nrandom_mode = \"c\"\n"),
    ("E5M2", "rounding = \"stochastic\"\nrandom_bits = 31\nrandom_mode = \"odd\"\n"),
    ("E4M3", "block = 64\nscaling = { rule = \"rms\", type = \"e8m0\" }\n"),
];
/// Rows are long enough for blocks of 128 and transforms of 32 elements.
const MODEL: &str =
    "[model]\nn_layer = 2\nn_head = 2\nn_embd = 128\n[data]\nblock_size = 64\nbatch_size = 2\n";

/// The rounding of this section `[quant]` on a device.
fn plan(quant: &str, registry: &Registry, device: &ComputeDevice) -> Result<QuantPlan, Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, format!("{MODEL}[quant]\n{quant}")).unwrap();
    let (config, source) = altgrad_config::load(&path, &[])?;
    let layout = Layout::new(&GptShape::new(&config.model, 64, 64));
    rounding_of(&config, &source, registry, device, &layout)
}

/// Numbers of several sizes, with blocks of zeros and of tiny numbers, a row of equal numbers, and ties. `broken` ones
/// have NaN and infinities.
fn numbers(rows: usize, columns: usize, broken: bool) -> Vec<f32> {
    let mut random = Random::seeded((rows * 7 + columns) as u64);
    let mut x: Vec<f32> = (0..rows * columns)
        .map(|i| {
            let size = [1.0, 1e-3, 30.0, 1e-30, 1e-41][(i / 64 + i / columns) % 5];
            (random.unit() as f32 - 0.5) * size
        })
        .collect();
    x[..columns].fill(0.0);
    x[columns..2 * columns].fill(-1.25);
    for (i, x) in x[2 * columns..3 * columns].iter_mut().enumerate() {
        *x = [0.25, -0.75, 1.25, 2.5, -5.0, 6.0, 0.0, 3.5][i % 8];
    }
    if broken {
        (x[3 * columns], x[4 * columns + 1], x[5 * columns + 40]) =
            (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        x[6 * columns..6 * columns + 64].fill(f32::INFINITY);
    }
    x
}

/// Bits of values, all NaN alike.
fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// Values, scales and statistics of a site's cast.
fn applied(
    site: &TensorQuantizer,
    x: &[f32],
    shape: [usize; 2],
    device: &ComputeDevice,
) -> (Vec<u32>, Vec<u32>, QuantStats) {
    let key = RandomKey { seed: 7, step: 3, tensor: 11, offset: 0 };
    let matrix: Tensor<2> = Tensor::from_data(TensorData::new(x.to_vec(), shape), &device.tensors);
    let rotation = site.transform.map(|hadamard| Rotation { hadamard, key });
    let params = CastParams {
        quant: site.fake_quant_params(key, &History::default()),
        arrangement: site.arrangement(),
        rotation,
        center: site.center,
    };
    let rounded = cast(matrix, params);
    let stats = rounded.stats.read().unwrap();
    let flat = |x: Tensor<2>| bits(tensor::read_f32(x.flatten(0, 1)).unwrap());
    (flat(rounded.values), flat(rounded.scales), stats)
}

#[test]
fn casts_of_all_recipes_have_the_bits_of_the_cpu() {
    let dir = Some(stage().join("plugins").display().to_string());
    let registry = Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap();
    let cpu = ComputeDevice::cpu();
    for device in devices("casts_of_all_recipes_have_the_bits_of_the_cpu") {
        let recipes = RECIPES.iter().map(|(recipe, _)| (*recipe, format!("recipe = \"{recipe}\"\n")));
        let others = OTHERS
            .iter()
            .map(|(format, cast)| (*cast, format!("weight = \"{format}\"\n[quant.cast.weight]\n{cast}")));
        let mut refused = BTreeSet::new();
        for (recipe, quant) in recipes.chain(others) {
            let expected = plan(&quant, &registry, &cpu).unwrap_or_else(|error| panic!("{recipe}: {error}"));
            let found = match plan(&quant, &registry, &device) {
                Ok(found) => found,
                Err(error) => {
                    assert!(error.message.contains(&device.label), "{recipe}: {error}");
                    refused.insert(recipe);
                    continue;
                }
            };
            assert!(found.sites().iter().all(|site| site.runs_on(&device)), "{recipe}: in main memory");
            let mut seen = Vec::new();
            for (own, other) in found.sites().iter().zip(expected.sites()) {
                // Those of other layers are the same.
                let what = (own.role, own.format.plugin().identity.name.clone(), own.scaling, own.tile);
                if seen.contains(&what) {
                    continue;
                }
                seen.push(what);
                let [rows, columns] = match own.role {
                    Role::Weight => [384, 128],
                    Role::WeightDgrad => [128, 384],
                    Role::Grad => [128, 384],
                    _ => [128, 128],
                };
                for broken in [false, true] {
                    let x = numbers(rows, columns, broken);
                    let shape = [rows, columns];
                    let (values, scales, stats) = applied(own, &x, shape, &device);
                    let (values_of_cpu, scales_of_cpu, stats_of_cpu) = applied(other, &x, shape, &cpu);
                    let what = format!("{}: {recipe}, {:?}, broken {broken}", device.label, own.role);
                    let differs = |a: &[u32], b: &[u32]| (0..a.len()).find(|i| a[*i] != b[*i]);
                    assert_eq!(scales.len(), scales_of_cpu.len(), "{what}");
                    if let Some(i) = differs(&scales, &scales_of_cpu) {
                        let [found, expected] = [scales[i], scales_of_cpu[i]].map(f32::from_bits);
                        panic!("{what}: scale {i} is {found:e}, on the CPU {expected:e}");
                    }
                    if let Some(i) = differs(&values, &values_of_cpu) {
                        let [found, expected] = [values[i], values_of_cpu[i]].map(f32::from_bits);
                        panic!("{what}: {:e} at {i} becomes {found:e}, on the CPU {expected:e}", x[i]);
                    }
                    let counts = |stats: &QuantStats| {
                        let stats = stats.stats;
                        (stats.amax, stats.overflow, stats.underflow, stats.nan, stats.nonzero)
                    };
                    assert_eq!(counts(&stats), counts(&stats_of_cpu), "{what}");
                    // Poisoned blocks have no sums.
                    if broken {
                        continue;
                    }
                    let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs() || a.is_nan() && b.is_nan();
                    assert!(near(stats.stats.sum_x2, stats_of_cpu.stats.sum_x2), "{what}");
                    assert!(near(stats.stats.sum_err2, stats_of_cpu.stats.sum_err2), "{what}");
                    assert!(near(stats.stats.sum_x_xhat, stats_of_cpu.stats.sum_x_xhat), "{what}");
                }
            }
        }
        assert_eq!(refused, BTreeSet::from(REFUSED), "{}", device.label);
    }
}
