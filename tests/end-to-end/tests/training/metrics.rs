//! Every metric of a quantized run: present at its steps and nowhere else, and without effect on the training;
//! `recount` computes them in another way.

mod recount;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use altgrad_end_to_end::{Bench, TINY, built, plugin};
use serde_json::Value;

const LAYERS: [&str; 5] = [
    "h.0.attn.c_attn.weight",
    "h.0.attn.c_proj.weight",
    "h.0.mlp.c_fc.weight",
    "h.0.mlp.c_proj.weight",
    "wte.weight",
];
const NORMS: [&str; 3] = ["h.0.ln_1.weight", "h.0.ln_2.weight", "ln_f.weight"];
const ROLES: [&str; 3] = ["weight", "activation", "grad"];

/// A folder with the plugins of these tests, the example of a sink that keeps histograms among them.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["adamw.so", "csv.so", "e4m3.so", "e3m4.so", "e5m2.so"] {
        bench.add_plugin(&plugin(name));
    }
    bench.add_plugin(&built("libaltgrad_example_jsonl.so"));
    bench
}

struct Run {
    /// Metrics by name, one cell a step, empty where missing.
    columns: BTreeMap<String, Vec<String>>,
    /// Histograms by step and name: edges and counts.
    histograms: BTreeMap<(u64, String), (Vec<f64>, Vec<u64>)>,
    weights: Vec<u8>,
}

/// A tiny run with this quantization and these settings.
fn run(bench: &Bench, out: &str, quant: &str, set: &[&str]) -> Run {
    let quant = TINY.replace("weight = \"E5M2\"", quant);
    let sinks = "[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n[[sink]]\nname = \"jsonl\"\n";
    bench.write("run.toml", &format!("{quant}\n{sinks}"));
    let set = set.iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["run", "run.toml", "--quiet", "--out", out].into_iter().chain(set).collect();
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let columns = bench.metrics(out);
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    let lines = fs::read_to_string(bench.path(out).join("histograms.jsonl")).unwrap();
    let histograms = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let counts = line["counts"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect();
        let key = (line["step"].as_u64().unwrap(), line["name"].as_str().unwrap().to_string());
        (key, (numbers(&line["edges"]), counts))
    });
    let weights = fs::read(bench.path(out).join("weights.safetensors")).unwrap();
    Run { columns, histograms: histograms.collect(), weights }
}

impl Run {
    /// A metric at step 0.
    fn first(&self, name: &str) -> f64 {
        self.columns[name][0].parse().unwrap_or_else(|_| panic!("{name} is missing"))
    }
}

/// Every metric and its steps, of a run of 6 steps with the settings of the test below.
fn expected() -> BTreeMap<String, Vec<usize>> {
    let (all, even) = (vec![0, 1, 2, 3, 4, 5], vec![0, 2, 4]);
    let mut expected = BTreeMap::new();
    let mut add = |name: String, steps: &[usize]| assert_eq!(expected.insert(name, steps.to_vec()), None);
    for name in
        ["step", "train/loss", "train/perplexity", "train/grad_norm", "train/grad_norm_clipped", "train/lr"]
    {
        add(name.into(), &all);
    }
    add("val/loss".into(), &even);
    add("val/perplexity".into(), &even);
    for statistic in ["overflow_rate", "underflow_rate", "nan_count", "sqnr_db", "shrinkage", "amax"] {
        add(format!("quant/{statistic}"), &all);
        for role in ROLES {
            add(format!("quant/{role}/{statistic}"), &all);
            LAYERS.iter().for_each(|layer| add(format!("quant/{role}/{statistic}/{layer}"), &all));
        }
    }
    for role in ROLES {
        LAYERS.iter().for_each(|layer| add(format!("quant/{role}/scale/{layer}"), &all));
    }
    let bits = (0..8).map(|bit| format!("bit_active/{bit}"));
    for statistic in
        ["code_entropy", "dead_codes", "dynamic_range_used"].map(String::from).into_iter().chain(bits)
    {
        for role in ROLES {
            add(format!("quant/{role}/{statistic}"), &even);
            LAYERS.iter().for_each(|layer| add(format!("quant/{role}/{statistic}/{layer}"), &even));
        }
    }
    for role in ROLES {
        LAYERS.iter().for_each(|layer| add(format!("quant/{role}/kurtosis/{layer}"), &all));
    }
    for offset in -3..=3 {
        LAYERS.iter().for_each(|layer| add(format!("quant/weight/sqnr_db_at/{offset}/{layer}"), &even));
    }
    add("update/zero_update_frac".into(), &all);
    let updates =
        ["bit_stall_rate", "flip_rate", "sign_flip_rate", "ulp_abs_mean", "ulp_abs_p50", "ulp_abs_p99"];
    let updates = updates.map(|name| (name, &all[..])).into_iter();
    for (statistic, steps) in updates.chain([("binade_crossings", &all[..]), ("oscillation", &all[2..])]) {
        add(format!("update/{statistic}"), steps);
        LAYERS.iter().for_each(|layer| add(format!("update/{statistic}/{layer}"), steps));
    }
    for statistic in [
        "weights/grid_alignment",
        "weights/stiffness_mean",
        "weights/stiffness_grad_corr",
        "update/ulp_from_init",
    ] {
        LAYERS.iter().for_each(|layer| add(format!("{statistic}/{layer}"), &even));
    }
    // Before the first update there is no movement.
    add("update/movement_loss".into(), &even[1..]);
    LAYERS.iter().for_each(|layer| add(format!("update/movement_loss/{layer}"), &even[1..]));
    let attention = LAYERS.iter().filter(|layer| layer.ends_with("attn.c_attn.weight"));
    add("attention/max_logit".into(), &all);
    for layer in attention {
        for statistic in ["entropy", "least_head_entropy", "max_logit"] {
            add(format!("attention/{statistic}/{layer}"), &all);
        }
        add(format!("attention/qk_entropy/{layer}"), &even);
    }
    for name in LAYERS.iter().chain(&["wpe.weight"]) {
        add(format!("dead_rows/{name}"), &all[3..]);
        add(format!("weights/stable_rank/{name}"), &[0, 3]);
        add(format!("weights/effective_rank/{name}"), &[0, 3]);
    }
    for name in LAYERS.iter().chain(&["wpe.weight"]).chain(&NORMS) {
        add(format!("dead_persistent/{name}"), &all[3..]);
        for statistic in ["grad_norm_l2", "grad_norm_linf", "grad_mean_over_std", "dead_frac"] {
            add(format!("{statistic}/{name}"), &all);
        }
    }
    expected
}

const HYBRID: &str = "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"\nrounding = \"stochastic\"";
const ALL: [&str; 4] = [
    "metrics.histograms_every=2",
    "metrics.kurtosis_every=1",
    "metrics.rank_every=3",
    "metrics.dead_neuron_window=4",
];

#[test]
fn every_metric_comes_at_its_steps_and_nothing_else() {
    let bench = bench();
    let found = run(&bench, "all", HYBRID, &ALL);
    let steps = |cells: &Vec<String>| (0..cells.len()).filter(|&step| !cells[step].is_empty()).collect();
    let steps: BTreeMap<String, Vec<usize>> =
        found.columns.iter().map(|(name, cells)| (name.clone(), steps(cells))).collect();
    let expected = expected();
    for (name, expected) in &expected {
        assert_eq!(steps.get(name), Some(expected), "{name}");
    }
    assert_eq!(
        steps.len(),
        expected.len(),
        "{:?}",
        steps.keys().filter(|name| !expected.contains_key(*name))
    );
    // All were announced before the first row: a run that fails in its first step leaves the same header.
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    let failing = [
        "run",
        "run.toml",
        "--quiet",
        "--out",
        "none",
        "--set",
        "optimizer.name=bad",
        "--set",
        "plugins.check=none",
    ];
    let args: Vec<&str> = failing.into_iter().chain(ALL.iter().flat_map(|set| ["--set", set])).collect();
    let outcome = bench.host_with(&args, &[("ALTGRAD_PANIC_IN", "optimizer.step:error")]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_eq!(bench.read("none/metrics.csv").lines().count(), 1);
    for file in ["metrics.csv", "layers.csv"] {
        let header = |out: &str| bench.read(&format!("{out}/{file}")).lines().next().unwrap().to_string();
        assert_eq!(header("none"), header("all"));
    }

    let mut histograms = BTreeSet::new();
    for step in [0, 2, 4] {
        for layer in LAYERS {
            histograms.extend(ROLES.map(|role| (step, format!("quant/{role}/code_hist/{layer}"))));
            histograms.insert((step, format!("update/ulp_hist/{layer}")));
            histograms.insert((step, format!("weights/spacing_hist/{layer}")));
        }
        for name in LAYERS.iter().chain(&["wpe.weight"]).chain(&NORMS) {
            histograms.insert((step, format!("weights/hist/{name}")));
        }
    }
    assert_eq!(found.histograms.keys().cloned().collect::<BTreeSet<_>>(), histograms);
    for ((_, name), (edges, counts)) in &found.histograms {
        assert_eq!(edges.len(), counts.len() + 1, "{name}");
        assert!(edges.is_sorted_by(|a, b| a < b) && counts.iter().sum::<u64>() > 0, "{name}");
    }
}

#[test]
fn metrics_change_neither_weights_nor_other_metrics() {
    let bench = bench();
    let off = ["metrics.every=0", "metrics.histograms_every=0", "metrics.dead_neuron_window=0"];
    let plain = run(&bench, "plain", HYBRID, &off);
    let measured = run(&bench, "measured", HYBRID, &ALL);
    let rarely = run(&bench, "rarely", HYBRID, &["metrics.every=3", "metrics.histograms_every=5"]);
    assert_eq!(plain.weights, measured.weights);
    assert_eq!(plain.weights, rarely.weights);
    for (name, cells) in &plain.columns {
        assert_eq!(Some(cells), measured.columns.get(name), "{name}");
        assert_eq!(Some(cells), rarely.columns.get(name), "{name}");
    }
    assert!(plain.histograms.is_empty());
    let families = ["update/", "weights/", "grad_norm_l2", "dead", "quant/weight/code_entropy"];
    let of_families = |run: &Run| {
        run.columns.keys().filter(|name| families.iter().any(|family| name.starts_with(family))).count()
    };
    assert_eq!(of_families(&plain), 0);
    assert!(of_families(&rarely) > 50);
    assert!(!rarely.columns.contains_key("update/oscillation"), "three steps in a row are never seen");
}

/// One measurement takes hundreds of passes, far more than a step.
#[test]
fn the_time_of_a_step_leaves_out_the_passes_for_curvature() {
    let bench = Bench::new();
    let curvature = "[curvature]\nevery = 2\ndraws = 200\n[[sink]]\nname = \"csv\"\n";
    bench.write("run.toml", &(TINY.replace("max_steps = 6", "max_steps = 12") + curvature));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let timings = bench.read("run/timings.csv");
    let column = timings.lines().next().unwrap().split(',').position(|name| name == "train/step_ms").unwrap();
    let ms =
        timings.lines().skip(1).filter_map(|row| row.split(',').nth(column).unwrap().parse::<f64>().ok());
    // The first steps warm up.
    let ms: Vec<f64> = ms.skip(2).collect();
    let median = |first: usize| {
        let mut ms: Vec<f64> = ms.iter().skip(first).step_by(2).copied().collect();
        ms.sort_by(f64::total_cmp);
        ms[ms.len() / 2]
    };
    let (measured, plain) = (median(0), median(1));
    assert!(measured < 10.0 * plain, "{measured} ms, {plain} ms without measurement");
}
