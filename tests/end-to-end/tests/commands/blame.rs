//! `blame`: a planted cause is found with its remedy, whether or not the search was cut short; runs without casts are
//! refused.

use altgrad_end_to_end::{Bench, TINY};
use serde_json::Value;

/// A scale of the logit gradient under which it becomes zero.
fn planted() -> String {
    let quant = "weight = \"E5M2\"\nactivation = \"E5M2\"\ngrad = \"E5M2\"\n[[quant.layer]]\nmatch = \"lm_head.weight\"\ncast.grad.scaling = { amax = \"static\", static_amax = 1e12 }";
    TINY.replace("weight = \"E5M2\"", quant).replace("max_steps = 6", "max_steps = 30")
}

#[test]
#[ignore = "--all: two hundred runs"]
fn a_frozen_scale_is_found_and_replaced() {
    let bench = Bench::new();
    bench.write("run.toml", &planted());
    let blame = |out: &str, more: &[&str]| {
        let args = ["blame", "run.toml", "--seeds", "3", "--jobs", "2", "--quiet", "--out", out];
        let outcome = bench.host(&[&args, more].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let record: Value = serde_json::from_str(&bench.read(&format!("{out}/blame.json"))).unwrap();
        (record, outcome)
    };
    let (whole, outcome) = blame("whole", &[]);
    let found = whole["found"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{}", outcome.stdout);
    assert_eq!(found[0]["name"], "grad:wte.weight");
    assert_eq!(whole["window"]["from"], 0);
    let remedy = whole["remedies"].as_array().unwrap().last().unwrap();
    assert_eq!(remedy["name"], "current scaling");
    assert!(remedy["confirmed"]["mean"].as_f64().unwrap() > 0.1, "{remedy}");
    assert!(outcome.stdout.starts_with("grad:wte.weight causes a loss increase of "), "{}", outcome.stdout);
    assert_eq!(bench.host(&["check", "whole/remedied.toml", "--out", "fresh"]).code, 0);

    let (part, outcome) = blame("part", &["--budget", "40"]);
    assert_eq!(part["is_complete"], false);
    assert!(outcome.stdout.contains("and its causes are not known yet"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("a larger --budget continues"), "{}", outcome.stderr);
    assert_eq!(blame("part", &[]).0, whole);
}

#[test]
fn runs_whose_casts_cannot_be_undone_are_refused() {
    let bench = Bench::new();
    let rotated = "weight = \"E5M2\"\nactivation = \"E5M2\"\ngrad = \"E5M2\"\ntransform = { hadamard = 4 }\nsource = \"dequantized\"\ncast.grad_wgrad.source = \"hp\"";
    for (run, message) in [
        (TINY.replace("[quant]\nweight = \"E5M2\"\n", ""), "the run rounds nothing"),
        (
            TINY.replace("weight = \"E5M2\"", rotated),
            "have a transform, so that none can be undone by itself",
        ),
    ] {
        bench.write("run.toml", &run);
        let outcome = bench.host(&["blame", "run.toml"]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert!(!bench.path("run-blame").exists());
    }
}
