//! `curvature`: the Hessian and the gradient noise of a trained model.

use altgrad_end_to_end::{Bench, TINY};
use serde_json::Value;

/// A bench with a finished run, whose weights round to E5M2 and activations to E4M3, in `runs/tiny`.
fn trained() -> Bench {
    let bench = Bench::new();
    let quant = "activation = \"E4M3\"\ngrad = \"E5M2\"\n";
    bench.write("tiny.toml", &format!("{TINY}{quant}[[sink]]\nname = \"csv\"\n"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    bench
}

#[track_caller]
fn curvature(bench: &Bench, args: &[&str]) -> Value {
    let outcome = bench.host(&[&["curvature", "runs/tiny", "--json"], args].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn curvature_depends_on_seed_alone_and_layers_add_up() {
    let bench = trained();
    let found = curvature(&bench, &[]);
    assert_eq!(found, curvature(&bench, &[]));
    assert_ne!(found["trace"], curvature(&bench, &["--seed", "1"])["trace"]);
    let layers = found["layers"].as_array().unwrap();
    let sum = |of: fn(&Value) -> &Value| layers.iter().map(|layer| of(layer).as_f64().unwrap()).sum::<f64>();
    let near = |a: f64, b: &Value| (a / b.as_f64().unwrap() - 1.0).abs() < 1e-6;
    assert!(near(sum(|layer| &layer["trace"]["mean"]), &found["trace"]["mean"]), "{found:#}");
    assert!(near(sum(|layer| &layer["fisher_trace"]), &found["fisher_trace"]), "{found:#}");
    // After six steps the model may be at a saddle, whose largest eigenvalue is negative.
    assert!(found["largest_eigenvalue"]["value"].as_f64().unwrap() != 0.0, "{found:#}");
    assert!(found["noise_scale"]["covariance_trace"].as_f64().unwrap() > 0.0, "{found:#}");
}

#[test]
fn rounding_noise_is_missing_without_rounding() {
    let bench = trained();
    let fast = ["--draws", "1", "--iterations", "1", "--batches", "1"];
    let rounded = curvature(&bench, &fast);
    assert!((3.0..1000.0).contains(&rounded["signal_to_noise"].as_f64().unwrap()), "{rounded:#}");
    let exact = curvature(&bench, &[&fast[..], &["--full-precision"]].concat());
    assert_eq!(exact["signal_to_noise"], Value::Null);
    // The Hessian is that of the unrounded loss in both.
    assert_eq!(exact["trace"], rounded["trace"]);
    let outcome = bench.host(&[&["curvature", "runs/tiny", "--full-precision"], &fast[..]].concat());
    assert!(outcome.stdout.contains("nothing is rounded"), "{}", outcome.stdout);
    let outcome = bench.host(&["curvature", "runs/tiny", "--step", "1"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("1e-7 to 0.1"), "{}", outcome.stderr);
}

/// A transform that divides the 16 tokens of a batch and not the 8 of a sequence.
#[test]
fn a_transform_must_divide_single_sequences() {
    let bench = Bench::new();
    let cast = |role| format!("[quant.cast.{role}]\nsource = \"hp\"\ntransform = {{ hadamard = 16 }}\n");
    let quant = format!("grad = \"E5M2\"\n{}{}", cast("activation_wgrad"), cast("grad_wgrad"));
    bench.write("tiny.toml", &format!("{TINY}activation = \"E4M3\"\n{quant}"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let command: &[&str] = &["curvature", "runs/tiny"];
    for args in [command, &["run", "tiny.toml", "--quiet", "--out", "other", "--set", "curvature.every=2"]] {
        let outcome = bench.host(args);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        for text in ["does not divide the 8 elements", "single sequences"] {
            assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
        }
    }
}

#[test]
fn a_run_measures_what_the_command_does_and_trains_as_without() {
    let bench = trained();
    let run = |name: &str, more: &[&str]| {
        let out = format!("runs/{name}");
        let outcome = bench.host(&[&["run", "tiny.toml", "--quiet", "--out", &out], more].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    };
    let measured = ["curvature.every=2", "curvature.batches=2", "curvature.draws=3"];
    let measured: Vec<&str> = measured.iter().flat_map(|set| ["--set", set]).collect();
    run("measured", &measured);
    let weights =
        |name: &str| std::fs::read(bench.path(&format!("runs/{name}/weights.safetensors"))).unwrap();
    assert!(weights("measured") == weights("tiny"), "the measurement changed the training");
    // The weights before step 4 are those of a run of four steps.
    run("four", &["--max-steps", "4"]);
    let args = ["curvature", "runs/four", "--json", "--batches", "2", "--draws", "3", "--iterations", "50"];
    let outcome = bench.host(&args);
    let found: Value = serde_json::from_str(&outcome.stdout).expect(&outcome.stderr);
    let columns = bench.metrics("runs/measured");
    let eigenvalue = &found["largest_eigenvalue"];
    let eigenvalue =
        eigenvalue["converged"].as_bool().unwrap().then(|| eigenvalue["value"].as_f64().unwrap());
    for (name, expected) in [
        ("curvature/hessian_trace", found["trace"]["mean"].as_f64()),
        ("curvature/hessian_trace_error", found["trace"]["standard_error"].as_f64()),
        ("curvature/fisher_trace", found["fisher_trace"].as_f64()),
        ("curvature/noise_scale", found["noise_scale"]["sequences"].as_f64()),
        ("curvature/largest_eigenvalue", eigenvalue),
    ] {
        let got = columns[name][4].parse().ok();
        let near = |(a, b): (f64, f64)| (a / b - 1.0).abs() < 1e-6;
        assert_eq!(got.is_some(), expected.is_some(), "{name}: {got:?}, expected {expected:?}");
        assert!(got.zip(expected).is_none_or(near), "{name}: {got:?}, expected {expected:?}");
        assert_eq!(columns[name][3], "", "{name} on a step without a measurement");
    }
}
