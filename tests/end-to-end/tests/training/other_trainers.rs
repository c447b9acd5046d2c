//! Situations from bug reports of other trainers, which docs/bug-reports.md lists with links.

use std::fs;

use altgrad_end_to_end::{Bench, TINY};
use serde_json::{Map, Value};

/// Runs a file and returns its `run.json`.
#[track_caller]
fn train(bench: &Bench, name: &str, file: &str) -> Value {
    bench.write(&format!("{name}.toml"), file);
    let outcome = bench.host(&["run", &format!("{name}.toml"), "--quiet", "--out", name]);
    assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
    serde_json::from_str(&bench.read(&format!("{name}/run.json"))).unwrap()
}

/// The file of a run's weights, and the ranges of its tensors by name.
fn weights(bench: &Bench, run: &str) -> (Vec<u8>, Vec<(String, std::ops::Range<usize>)>) {
    let bytes = fs::read(bench.path(run).join("weights.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let range = |tensor: &Value| {
        let at = |index: usize| 8 + length + tensor["data_offsets"][index].as_u64().unwrap() as usize;
        at(0)..at(1)
    };
    let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
    let ranges = tensors.map(|(name, tensor)| (name.clone(), range(tensor))).collect();
    (bytes, ranges)
}

/// Dropout, random bits and delayed scales draw the same whatever is evaluated, and when.
#[test]
fn evaluations_change_nothing_in_the_training() {
    let bench = Bench::new();
    let rounding = "weight = \"E5M2\"\ngrad = \"E5M2\"\ngrad_rounding = \"stochastic\"\n\
        scaling = { amax = \"delayed\", window = 2 }\n[[sink]]\nname = \"csv\"\n";
    let file = TINY.replace("n_embd = 8", "n_embd = 8\ndropout = 0.1").replace("weight = \"E5M2\"", rounding);
    let file = file.replace("max_steps = 6", "max_steps = 12");
    let mut losses = Vec::new();
    for (name, evaluations) in [
        ("often", "eval_interval = 1\nfull_eval = \"always\""),
        ("seldom", "eval_interval = 5\nfull_eval = \"never\""),
        ("never", "eval_interval = 0\nfull_eval = \"never\""),
    ] {
        train(&bench, name, &file.replace("eval_interval = 2", evaluations));
        losses.push(bench.metrics(name)["train/loss"].clone());
    }
    assert!(losses[0].len() == 12 && losses[0].iter().all(|loss| !loss.is_empty()), "{losses:?}");
    assert!(losses[0] == losses[1] && losses[0] == losses[2], "{losses:?}");
}

/// With output projections of zero, as some trainers begin, the matrices before them have no gradient: its norm is
/// zero, and so are its moments.
#[test]
fn matrices_without_a_gradient_stay_finite_in_every_optimizer() {
    let bench = Bench::new();
    let file = TINY.replace("weight = \"E5M2\"\n", "").replace("max_steps = 6", "max_steps = 12");
    train(&bench, "start", &file);
    let (mut bytes, ranges) = weights(&bench, "start");
    let projections = ranges.iter().filter(|(name, _)| name.ends_with("c_proj.weight"));
    assert_eq!(projections.clone().map(|(_, range)| bytes[range.clone()].fill(0)).count(), 2);
    fs::write(bench.path("zero.safetensors"), bytes).unwrap();
    let file = file.replace("n_embd = 8", "n_embd = 8\ninit = \"zero.safetensors\"");
    for storage in ["", "weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\"\n"] {
        for optimizer in ["adamw", "fp8-manifold", "lion", "madam", "muon", "sgd", "soap", "stiffness-adamw"]
        {
            let name = format!("{optimizer}-{}", storage.len());
            let file = file.replace("adamw", optimizer).replace("[quant]\n", &format!("[quant]\n{storage}"));
            let record = train(&bench, &name, &file);
            let (first, last) = (&record["initial_val_loss"], &record["final_val_loss"]);
            assert!(last.as_f64().unwrap() < first.as_f64().unwrap(), "{name}: {first} -> {last}");
        }
    }
    // Muon is not silently another rule: the record names that of each matrix.
    let record: Value = serde_json::from_str(&bench.read("muon-0/run.json")).unwrap();
    let matrices = record["computed"]["optimizer"]["rules"]["Muon"].as_array().unwrap();
    assert_eq!(matrices.len(), 4, "{matrices:?}");
}

/// A decay of 1e-3 of a weight is less than half a step of bfloat16, 2^-9: rounded to nearest by itself it would be
/// lost.
#[test]
fn a_decay_below_half_a_step_of_the_format_is_kept() {
    let bench = Bench::new();
    let file = TINY
        .replace("max_steps = 6", "max_steps = 300")
        .replace(
            "lr = 0.01\nmin_lr = 0.001\nwarmup_steps = 2",
            "lr = 1e-4\nschedule = \"constant\"\nwarmup_steps = 0",
        )
        .replace("eval_interval = 2", "eval_interval = 0");
    let norm = |storage: &str, decay: u32| {
        let name = format!("decay{decay}-{}", storage.len());
        let optimizer = format!("name = \"adamw\"\nweight_decay = {decay}.0");
        let file = file.replace("name = \"adamw\"", &optimizer).replace("weight = \"E5M2\"\n", storage);
        train(&bench, &name, &file);
        let (bytes, ranges) = weights(&bench, &name);
        let (_, range) = ranges.iter().find(|(name, _)| name.ends_with("mlp.c_fc.weight")).unwrap();
        let values = bytes[range.clone()].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
    };
    let ratio = |storage: &str| norm(storage, 10) / norm(storage, 0);
    let expected = ratio("");
    // 0.999^300 is 0.741; the steps of the gradient add to it.
    assert!((0.75..0.85).contains(&expected), "{expected}");
    let stored = "weight = \"E8M7\"\nmaster_weights = \"none\"\n";
    let stochastic = ratio(&format!("{stored}rounding = \"stochastic\"\n"));
    assert!((stochastic / expected - 1.0).abs() < 0.02, "{stochastic} instead of {expected}");
}

/// `keep_last` does not count the best checkpoint, and its loss is the recorded one.
#[test]
fn the_best_checkpoint_outlives_later_ones() {
    let bench = Bench::new();
    // The rate grows until the loss rises again.
    let file = TINY
        .replace("max_steps = 6", "max_steps = 40")
        .replace("lr = 0.01", "lr = 1.0")
        .replace("warmup_steps = 2", "warmup_steps = 39");
    let file = format!("{file}[checkpoint]\nevery = 2\nkeep_last = 1\n[alerts]\ndivergence_patience = 0\n");
    let record = train(&bench, "run", &file);
    let best = record["best_val_step"].as_u64().unwrap();
    assert!((2..38).contains(&best), "the best step is {best}");
    assert!(record["final_val_loss"].as_f64() > record["best_val_loss"].as_f64());
    let evaluated = bench.host(&["evaluate", "run/checkpoints/best", "--json"]);
    assert_eq!(evaluated.code, 0, "{}", evaluated.stderr);
    let evaluated: Value = serde_json::from_str(&evaluated.stdout).unwrap();
    assert_eq!(evaluated["loss"], record["best_val_loss"]);
}
