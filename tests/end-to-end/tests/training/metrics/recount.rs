//! Metrics, counted in another way: nearest values by search through a format's table, distances by counting its
//! values, from the weights that a run began and ended with.

use std::{collections::BTreeMap, fs};

use altgrad_end_to_end::{Bench, plugin};
use serde_json::Value;

use super::{LAYERS, bench, run};

/// A format's values by code, from the host's own table.
fn table(bench: &Bench, format: &str) -> Vec<f64> {
    let outcome = bench.host(&["formats", "table", format, "--json", "--plugins", "plugins"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let table: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let bits = |code: &Value| f32::from_bits(code["f32_bits"].as_u64().unwrap() as u32);
    table["codes"].as_array().unwrap().iter().map(|code| bits(code).into()).collect()
}

/// Parameters of a safetensors file, by name.
fn parameters(bytes: &[u8]) -> BTreeMap<String, Vec<f32>> {
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    let elements = |tensor: &Value| {
        let at = |i: usize| 8 + len + tensor["data_offsets"][i].as_u64().unwrap() as usize;
        bytes[at(0)..at(1)].chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    let plain = |name: &str| name.trim_start_matches("transformer.").to_string();
    tensors.map(|(name, tensor)| (plain(name), elements(tensor))).collect()
}

/// E4M3 from its table alone: the nearest value by search, distances by counting values.
struct Slow {
    /// By code.
    values: Vec<f64>,
    scale: f32,
}

impl Slow {
    /// Code of the nearest value; zero keeps its sign. No weight here lies in the middle of two.
    fn code(&self, w: f32) -> usize {
        let x = f64::from(w * self.scale);
        let of_sign = |code: &usize| (*code >= 128) == (x < 0.0) && self.values[*code].is_finite();
        let distance = |code: &usize| (self.values[*code] - x).abs();
        (0..256).filter(of_sign).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
    }

    /// The number of values between zero and the weight, with the fraction of the last gap; and the gap.
    fn coordinate(&self, w: f32) -> (f64, f64) {
        let x = f64::from(w * self.scale).abs();
        let below = (0..127).filter(|&code| self.values[code] <= x).count() - 1;
        let below = below.min(125);
        let gap = self.values[below + 1] - self.values[below];
        ((below as f64 + (x - self.values[below]) / gap).copysign(w.into()), gap)
    }
}

/// One step from known weights to known weights: its metrics compared with a count by search.
#[test]
fn metrics_of_one_step_equal_a_recount_from_its_weights() {
    let bench = bench();
    run(&bench, "start", "weight = \"E4M3\"", &[]);
    let set = [
        "model.init=start/weights.safetensors",
        "train.max_steps=1",
        "train.warmup_steps=0",
        "train.lr=0.003",
        "metrics.rank_every=1",
    ];
    let one = run(&bench, "one", "weight = \"E4M3\"", &set);
    let before = parameters(&fs::read(bench.path("start/weights.safetensors")).unwrap());
    let after = parameters(&one.weights);
    let values = table(&bench, "E4M3");
    for layer in LAYERS {
        let (before, after) = (&before[layer], &after[layer]);
        let n = before.len() as f64;
        let amax = before.iter().fold(0f32, |most, w| most.max(w.abs()));
        let slow = Slow { values: values.clone(), scale: 448.0 / amax };
        let close = |name: &str, expected: f64, tolerance: f64| {
            let found = one.first(&format!("{name}/{layer}"));
            assert!((found - expected).abs() <= tolerance, "{name}/{layer}: {found}, {expected}");
        };
        // Codes of the weights.
        let mut counts = vec![0u64; 256];
        before.iter().for_each(|&w| counts[slow.code(w)] += 1);
        let histogram = &one.histograms[&(0, format!("quant/weight/code_hist/{layer}"))];
        assert_eq!(histogram.1, counts, "{layer}");
        let shares = || counts.iter().filter(|count| **count > 0).map(|&count| count as f64 / n);
        close("quant/weight/code_entropy", shares().map(|p| -p * p.ln()).sum::<f64>() / 2f64.ln(), 1e-9);
        let unused = counts.iter().filter(|count| **count == 0).count() - 2;
        close("quant/weight/dead_codes", unused as f64 / 254.0, 1e-12);
        let negative: u64 = counts[128..].iter().sum();
        close("quant/weight/bit_active/7", negative as f64 / n, 1e-12);
        // Codes before and after the optimizer's step; every gradient of these layers differs from zero.
        let flipped =
            before.iter().zip(after).filter(|(a, b)| slow.code(**a) != slow.code(**b)).count() as f64;
        assert!(flipped > 0.0 && flipped < n, "{layer}: {flipped} of {n}");
        close("update/flip_rate", flipped / n, 1e-12);
        close("update/bit_stall_rate", 1.0 - flipped / n, 1e-12);
        // Distances by counting values.
        let mut moved: Vec<f64> = before
            .iter()
            .zip(after)
            .map(|(a, b)| (slow.coordinate(*a).0 - slow.coordinate(*b).0).abs())
            .collect();
        let mean = moved.iter().sum::<f64>() / n;
        close("update/ulp_abs_mean", mean, 1e-5 * mean);
        moved.sort_by(f64::total_cmp);
        let median = moved[moved.len() / 2];
        close("update/ulp_abs_p50", median, 0.2 * median);
        let crossed =
            before.iter().zip(after).filter(|(a, b)| slow.coordinate(**a).1 != slow.coordinate(**b).1);
        close("update/binade_crossings", crossed.count() as f64 / n, 1e-12);
        // Weights compared with the grid.
        let off =
            |w: &f32| (slow.values[slow.code(*w)] - f64::from(w * slow.scale)).abs() / slow.coordinate(*w).1;
        close("weights/grid_alignment", before.iter().map(off).sum::<f64>() / n, 1e-9);
        let log2 = |w: &f32| (slow.coordinate(*w).1 / f64::from(slow.scale)).log2();
        close("weights/stiffness_mean", before.iter().map(log2).sum::<f64>() / n, 1e-9);
        let (edges, counts) = &one.histograms[&(0, format!("weights/spacing_hist/{layer}"))];
        for (bin, &count) in counts.iter().enumerate() {
            let here = before.iter().filter(|w| edges[bin] < log2(w) && log2(w) < edges[bin + 1]).count();
            assert_eq!(here as u64, count, "spacings of {layer} from 2^{}", edges[bin]);
        }
        assert_eq!(counts.iter().sum::<u64>() as f64, n);
        close("update/ulp_from_init", 0.0, 0.0);
        let spread = &one.histograms[&(0, format!("weights/hist/{layer}"))].1;
        assert_eq!(spread.iter().sum::<u64>() as f64, n);
        // Stable rank by power iteration for the largest singular value; 8 columns in all of these but one.
        let columns = if layer == "h.0.mlp.c_proj.weight" { 32 } else { 8 };
        let square: f64 = before.iter().map(|w| f64::from(*w).powi(2)).sum();
        close("weights/stable_rank", square / largest_square(before, columns), 1e-5 * columns as f64);
    }
}

/// After three updates of master weights: the part of their movement that rounding removes.
#[test]
fn movement_loss_is_that_of_the_weights_since_the_start() {
    let bench = bench();
    run(&bench, "start", "weight = \"E4M3\"", &[]);
    let of = |out: &str, steps: &str| {
        let steps = format!("train.max_steps={steps}");
        let lr = ["train.lr=0.003", "train.min_lr=0.003", "train.warmup_steps=0"];
        let set = ["model.init=start/weights.safetensors", "metrics.histograms_every=1", &steps];
        run(&bench, out, "weight = \"E4M3\"", &[&set[..], &lr].concat())
    };
    let before = parameters(&fs::read(bench.path("start/weights.safetensors")).unwrap());
    let after = parameters(&of("three", "3").weights);
    let four = of("four", "4");
    let values = table(&bench, "E4M3");
    let rounded = |weights: &[f32]| -> Vec<f64> {
        let amax = weights.iter().fold(0f32, |most, w| most.max(w.abs()));
        let slow = Slow { values: values.clone(), scale: 448.0 / amax };
        weights.iter().map(|w| slow.values[slow.code(*w)] / f64::from(slow.scale)).collect()
    };
    let [mut kept, mut moved] = [0.0; 2];
    for layer in LAYERS {
        let (w_0, w) = (&before[layer], &after[layer]);
        // Both on the grid of the step, whose scale is that of the later weights.
        let amax = w.iter().fold(0f32, |most, w| most.max(w.abs()));
        let limited = w_0.iter().map(|w| w.clamp(-amax, amax)).chain([amax]);
        let (r_0, r) = (rounded(&limited.collect::<Vec<_>>()), rounded(w));
        let d = || w.iter().zip(w_0).map(|(w, w_0)| f64::from(*w) - f64::from(*w_0));
        let along: f64 = d().zip(r.iter().zip(&r_0)).map(|(d, (r, r_0))| d * (r - r_0)).sum();
        let square: f64 = d().map(|d| d * d).sum();
        let found: f64 = four.columns[&format!("update/movement_loss/{layer}")][3].parse().unwrap();
        assert!((found - (1.0 - along / square)).abs() < 1e-4, "{layer}: {found}, {}", 1.0 - along / square);
        (kept, moved) = (kept + along, moved + square);
    }
    let column = &four.columns["update/movement_loss"];
    let found: f64 = column[3].parse().unwrap();
    assert!((found - (1.0 - kept / moved)).abs() < 1e-4 && found != 0.0, "{found}, {}", 1.0 - kept / moved);
    assert!(column[0].is_empty(), "no weight has moved at step 0: {column:?}");
}

/// FP8Manifold's steps end at the ends of the grid of the step, whose scale is that of the weights before it.
#[test]
fn elements_at_the_ends_of_the_grid_are_those_of_the_weights() {
    let bench = bench();
    bench.add_plugin(&plugin("fp8-manifold.so"));
    let grown = ["train.lr=0.03", "optimizer.name=fp8-manifold", "optimizer.ulp_per_lr=100.0"];
    run(&bench, "start", "weight = \"E4M3\"", &grown);
    let begin = ["model.init=start/weights.safetensors", "train.max_steps=1", "train.warmup_steps=0"];
    let one = run(&bench, "one", "weight = \"E4M3\"", &[&begin[..], &grown].concat());
    let before = parameters(&fs::read(bench.path("start/weights.safetensors")).unwrap());
    let (after, mut clamped) = (parameters(&one.weights), 0);
    for layer in LAYERS {
        let amax = before[layer].iter().fold(0f32, |most, w| most.max(w.abs()));
        let at_end = |w: &&f32| f64::from(w.abs()) >= f64::from(amax) * (1.0 - 1e-6);
        let count = after[layer].iter().filter(at_end).count();
        let found = one.first(&format!("update/clamped_frac/{layer}"));
        assert_eq!(found, count as f64 / before[layer].len() as f64, "{layer}");
        clamped += count;
    }
    assert!(clamped > 0, "no weight is at an end");
    // The first step finds no momentum.
    assert!(one.columns["update/dropped_momentum"].iter().all(String::is_empty));
    let dropped = &run(&bench, "more", "weight = \"E4M3\"", &grown).columns["update/dropped_momentum"];
    let dropped: Vec<f64> = dropped.iter().filter_map(|cell| cell.parse().ok()).collect();
    assert!(dropped.len() == 5 && dropped.iter().any(|share| *share > 0.0), "{dropped:?}");
    assert!(dropped.iter().all(|share| (0.0..=1.0).contains(share)), "{dropped:?}");
}

/// The square of the largest singular value, by power iteration.
fn largest_square(matrix: &[f32], columns: usize) -> f64 {
    let mut v: Vec<f64> = (0..columns).map(|i| 1.0 + 0.1 * i as f64).collect();
    let mut square = 0.0;
    for _ in 0..5000 {
        let mut next = vec![0.0; columns];
        for row in matrix.chunks(columns) {
            let along: f64 = row.iter().zip(&v).map(|(a, v)| f64::from(*a) * v).sum();
            row.iter().zip(&mut next).for_each(|(a, next)| *next += f64::from(*a) * along);
        }
        square = next.iter().map(|x| x * x).sum::<f64>().sqrt();
        v = next.into_iter().map(|x| x / square).collect();
    }
    square
}

/// A static scale far too large saturates, none at all lets small weights vanish: counted by search.
#[test]
fn overflow_and_underflow_rates_equal_a_recount() {
    let bench = bench();
    run(&bench, "start", "weight = \"E3M4\"", &[]);
    let before = parameters(&fs::read(bench.path("start/weights.safetensors")).unwrap());
    let step = |out: &str, scale: &str| {
        let quant = format!("weight = \"E3M4\"\n{scale}");
        run(
            &bench,
            out,
            &quant,
            &["model.init=start/weights.safetensors", "train.max_steps=1", "train.warmup_steps=0"],
        )
    };
    let saturated = step("a", "scaling = { amax = \"static\", static_amax = 0.01 }");
    let unscaled = step("b", "block = \"none\"");
    for layer in LAYERS {
        let share = |holds: &dyn Fn(f32) -> bool| {
            before[layer].iter().filter(|w| holds(**w)).count() as f64 / before[layer].len() as f64
        };
        // The largest value is 31; the smallest 2^-6, and half of it is a tie to zero.
        let overflow = share(&|w| (w * (31.0 / 0.01)).abs() > 31.0);
        let underflow = share(&|w| w.abs() <= 2f32.powi(-7) && w != 0.0);
        assert!(overflow > 0.2 && underflow > 0.01, "{layer}: {overflow}, {underflow}");
        assert_eq!(saturated.first(&format!("quant/weight/overflow_rate/{layer}")), overflow, "{layer}");
        assert_eq!(unscaled.first(&format!("quant/weight/underflow_rate/{layer}")), underflow, "{layer}");
        // Saturated values have the last codes of either sign.
        let counts = &saturated.histograms[&(0, format!("quant/weight/code_hist/{layer}"))].1;
        assert!((counts[127] + counts[255]) as f64 >= overflow * before[layer].len() as f64, "{layer}");
    }
}
