//! The examples of optimizers: each passes the suite, trains, and resumes with identical bits. Their states have the
//! shapes that they declare, and the record has their own numbers.

use altgrad_end_to_end::{Bench, TINY, assert_same_run, built, compile_c, plugin, skipped};

/// Steps of a run; half of them before the checkpoint.
const STEPS: u64 = 50;

/// A bench with that optimizer, and a run file that trains with it at that rate.
fn bench_of(library: &std::path::Path, name: &str, lr: f64, quant: &str) -> Bench {
    let bench = Bench::new();
    for library in [library, &plugin("csv.so"), &plugin("e4m3.so")] {
        bench.add_plugin(library);
    }
    let file = TINY
        .replace("max_steps = 6", &format!("max_steps = {STEPS}"))
        .replace("lr = 0.01\nmin_lr = 0.001", &format!("lr = {lr:?}\nmin_lr = {lr:?}"))
        .replace("name = \"adamw\"", &format!("name = \"{name}\""))
        .replace("weight = \"E5M2\"", quant);
    bench.write("run.toml", &format!("{file}[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n"));
    bench
}

fn run(bench: &Bench, args: &[&str]) {
    let outcome = bench.host(&[&["run", "run.toml", "--quiet"], args].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
}

/// Trains in one piece and in two, which must be identical; returns the first and the last loss.
fn trained(bench: &Bench) -> [f64; 2] {
    run(bench, &["--out", "whole"]);
    run(bench, &["--out", "parts", "--max-steps", &(STEPS / 2).to_string()]);
    run(bench, &["--out", "parts", "--resume"]);
    assert_same_run(bench, "whole", "parts");
    let losses = &bench.metrics("whole")["train/loss"];
    let loss = |text: Option<&String>| text.unwrap().parse::<f64>().unwrap();
    [loss(losses.first()), loss(losses.iter().rev().find(|text| !text.is_empty()))]
}

fn checked(bench: &Bench, library: &str) {
    let outcome = bench.host(&["plugins", "check", library]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
#[ignore = "--all: the whole suite on each example"]
fn each_example_passes_the_suite_trains_and_resumes() {
    let grids =
        ["weight = \"E4M3\"", "weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\""];
    for (name, lr) in [("adafactor", 0.02), ("prodigy", 1.0), ("sam", 0.3), ("shampoo", 0.1)] {
        let library = built(&format!("libaltgrad_example_{name}.so"));
        for (index, quant) in grids.into_iter().enumerate() {
            let bench = bench_of(&library, name, lr, quant);
            if index == 0 {
                checked(&bench, &library.display().to_string());
            }
            let [first, last] = trained(&bench);
            assert!(last < first - 0.1, "{name} {quant}: {first} -> {last}");
        }
    }
}

/// States of R + C numbers for each matrix of R x C, not more than 5 % beyond.
#[test]
fn adafactors_states_are_rows_and_columns() {
    let bench = bench_of(&built("libaltgrad_example_adafactor.so"), "adafactor", 0.02, "weight = \"E4M3\"");
    run(&bench, &["--out", "run"]);
    let record: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    let states = record["computed"]["optimizer"]["states"].as_object().unwrap();
    let stored: u64 = states.values().map(|state| state["bytes"].as_u64().unwrap()).sum();
    let (mut due, mut full) = (0, 0);
    let weights = safetensors_shapes(&bench.path("run/weights.safetensors"));
    for shape in &weights {
        full += shape.iter().product::<u64>();
        due += if shape.len() == 2 { shape.iter().sum::<u64>() } else { shape.iter().product() };
    }
    assert!(stored as f64 <= 1.05 * 4.0 * due as f64, "{stored} bytes, {due} numbers are due");
    assert!(due * 3 < full, "{due} numbers, {full} elements");
    // As checkpoints have them.
    let saved = safetensors_shapes(&bench.path("run/checkpoints/last/optimizer.safetensors"));
    let saved: u64 = saved.iter().map(|shape| shape.iter().product::<u64>()).sum();
    assert_eq!(saved, due);
}

/// The shapes of the tensors of a file.
fn safetensors_shapes(path: &std::path::Path) -> Vec<Vec<u64>> {
    let bytes = std::fs::read(path).unwrap();
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    let shape = |tensor: &serde_json::Value| {
        tensor["shape"].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect()
    };
    tensors.map(|(_, tensor)| shape(tensor)).collect()
}

#[test]
fn numbers_of_the_optimizer_are_in_the_record() {
    let bench = bench_of(&built("libaltgrad_example_prodigy.so"), "prodigy", 1.0, "weight = \"E4M3\"");
    run(&bench, &["--out", "run"]);
    let metrics = bench.metrics("run");
    let estimates: Vec<f64> = metrics["optimizer/d"].iter().filter_map(|text| text.parse().ok()).collect();
    assert_eq!(estimates.len() as u64, STEPS);
    assert!(estimates.is_sorted() && estimates[0] == f64::from(1e-6f32), "{estimates:?}");
    assert!(estimates.last().unwrap() > &1e-5, "{estimates:?}");
    assert!(metrics.contains_key("optimizer/d_numerator"));
}

/// States of the whole optimizer and of a shape of their own are stored as the run file says.
#[test]
fn states_of_any_shape_have_a_stored_type() {
    let stored = |name: &str, lr: f64, states: &str| {
        let bench = bench_of(&built(&format!("libaltgrad_example_{name}.so")), name, lr, "weight = \"E4M3\"");
        let file =
            bench.read("run.toml").replace("[optimizer]", &format!("[optimizer]\nstates = {{ {states} }}"));
        bench.write("run.toml", &file);
        let [first, last] = trained(&bench);
        assert!(last < first - 0.1, "{name}: {first} -> {last}");
        let record: serde_json::Value = serde_json::from_str(&bench.read("whole/run.json")).unwrap();
        (bench, record["computed"]["optimizer"]["states"].clone())
    };
    let (bench, states) = stored("prodigy", 1.0, "d_numerator = \"bf16\"");
    assert_eq!((&states["d_numerator"]["bytes"], &states["d"]["bytes"]), (&2.into(), &4.into()), "{states}");
    let numerators = &bench.metrics("whole")["optimizer/d_numerator"];
    let bits = numerators.iter().filter_map(|text| text.parse::<f32>().ok()).map(f32::to_bits);
    assert!(bits.clone().all(|bits| bits & 0xffff == 0) && bits.max() > Some(0), "{numerators:?}");

    let of_blocks = "left = { format = \"E4M3\", block = 16, min_size = 0 }";
    let (_, states) = stored("shampoo", 0.1, of_blocks);
    assert_eq!(states["left"]["stored_as"], "E4M3, blocks of 16", "{states}");
}

#[test]
fn an_optimizer_in_c_equals_its_rust_twin() {
    let bench = bench_of(&built("libaltgrad_example_sgd.so"), "sgd", 0.3, "weight = \"E4M3\"");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/optimizer-c/sgd.c");
    if let Err(why) = compile_c(&source, &bench.path("plugins/sgd-c.so")) {
        return skipped("an_optimizer_in_c_equals_its_rust_twin", &why);
    }
    checked(&bench, "plugins/sgd-c.so");
    run(&bench, &["--out", "rust"]);
    bench.write("run.toml", &bench.read("run.toml").replace("\"sgd\"", "\"sgd-c\""));
    let [first, last] = trained(&bench);
    assert!(last < first - 0.1, "{first} -> {last}");
    let weights = |run: &str| std::fs::read(bench.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("rust") == weights("whole"), "other bits");
}

#[test]
fn a_sink_in_c_passes_the_suite_and_has_each_row() {
    let bench = bench_of(&plugin("adamw.so"), "adamw", 0.01, "weight = \"E4M3\"");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sink-c/lines.c");
    if let Err(why) = compile_c(&source, &bench.path("plugins/lines-c.so")) {
        return skipped("a_sink_in_c_passes_the_suite_and_has_each_row", &why);
    }
    checked(&bench, "plugins/lines-c.so");
    bench.write("run.toml", &(bench.read("run.toml") + "[[sink]]\nname = \"lines-c\"\nfile = \"all.txt\"\n"));
    run(&bench, &["--out", "run", "--max-steps", "25"]);
    run(&bench, &["--out", "run", "--resume"]);
    let lines = bench.read("run/all.txt");
    let losses: Vec<&str> = lines.lines().filter(|line| line.contains(" train/loss ")).collect();
    assert_eq!(losses.len() as u64, STEPS, "{losses:?}");
    for (step, (line, csv)) in losses.iter().zip(&bench.metrics("run")["train/loss"]).enumerate() {
        let (start, value) = line.rsplit_once(' ').unwrap();
        assert_eq!(start, format!("{step} train/loss"));
        assert_eq!(value.parse::<f64>().unwrap().to_bits(), csv.parse::<f64>().unwrap().to_bits());
    }
    let refused = bench.host(&["run", "run.toml", "--out", "other", "--set", "sink.1.file=\"a/b\""]);
    assert!(refused.code != 0 && refused.stderr.contains("`file` must be a name"), "{}", refused.stderr);
}
