//! `blame`: a planted cause is found with its remedy, whether or not the search was cut short, also from a
//! checkpoint; operands with a transform are undone together; runs without casts are refused.

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
    assert_eq!(whole["windows"][0]["from"], 0);
    let remedy = whole["remedies"].as_array().unwrap().last().unwrap();
    assert_eq!(remedy["name"], "current scaling");
    assert!(remedy["confirmed"]["mean"].as_f64().unwrap() > 0.1, "{remedy}");
    assert!(outcome.stdout.starts_with("grad:wte.weight causes a loss increase of "), "{}", outcome.stdout);
    assert_eq!(bench.host(&["check", "whole/remedied.toml", "--out", "fresh"]).code, 0);

    let (part, outcome) = blame("part", &["--budget", "40"]);
    assert_eq!(part["is_complete"], false);
    assert!(outcome.stdout.contains("not known yet, except that they are in grad"), "{}", outcome.stdout);
    assert_eq!(part["levels"][0], whole["levels"][0]);
    assert!(outcome.stderr.contains("a larger --budget continues"), "{}", outcome.stderr);
    assert_eq!(blame("part", &[]).0, whole);
}

#[test]
#[ignore = "--all: a hundred runs"]
fn runs_begin_at_a_checkpoint_and_the_page_shows_the_result() {
    let bench = Bench::new();
    bench.write("run.toml", &planted());
    assert_eq!(bench.host(&["run", "run.toml", "--out", "exp"]).code, 0);
    let blame = ["blame", "exp", "--from", "10", "--seeds", "3", "--jobs", "2", "--quiet"];
    let outcome = bench.host(&blame);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let record = || bench.read("exp-blame/blame.json");
    let found: Value = serde_json::from_str(&record()).unwrap();
    assert_eq!(
        (&found["found"][0]["name"], &found["windows"][0]["from"]),
        (&"grad:wte.weight".into(), &10.into())
    );
    // A run that was killed begins again at the checkpoint.
    let trials = bench.path("exp-blame/.sweep/trials");
    let run = std::fs::read_dir(&trials)
        .unwrap()
        .flatten()
        .find(|run| run.file_name().to_string_lossy().starts_with("undone-"));
    std::fs::write(run.unwrap().path().join("run.json"), r#"{"status": "running", "steps": 12}"#).unwrap();
    let before = record();
    assert_eq!(bench.host(&blame).code, 0);
    assert_eq!(record(), before);

    assert_eq!(bench.host(&["report", "exp", "--out", "page.html"]).code, 0);
    let page = bench.read("page.html");
    assert!(
        page.contains("Causes of the loss increase") && page.contains("tiny: grad:wte.weight causes a loss")
    );
    assert!(page.contains("id=\"card-causes\""));
}

#[test]
fn beginnings_and_budgets_that_leave_nothing_to_do_are_said() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    assert_eq!(bench.host(&["run", "run.toml", "--out", "exp"]).code, 0);
    for (more, message) in [
        (&["--from", "6"][..], "runs would begin at step 6 and end at 6"),
        (&["--from", "alert"], "the run has raised no alert"),
        (&["--against", "exp"], "the run's training loss never departs from its twin's"),
        (&["--from", "soon"], "it is neither a step nor `alert`"),
        (&["--budget", "1h"], "it is neither a number of runs, such as 200, nor of minutes, such as 30min"),
    ] {
        let outcome = bench.host(&[&["blame", "exp"], more].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert!(!bench.path("exp-blame").exists());
    }
    let outcome = bench.host(&["blame", "exp", "--budget", "0min", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.starts_with("nothing is known yet\nthe search is not complete"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stderr.contains("the budget of 0 minutes is spent: the same command continues"));
}

#[test]
fn a_run_without_casts_is_refused_and_operands_with_a_transform_are_undone_together() {
    let bench = Bench::new();
    bench.write("run.toml", &TINY.replace("[quant]\nweight = \"E5M2\"\n", ""));
    let outcome = bench.host(&["blame", "run.toml"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the run rounds nothing"), "{}", outcome.stderr);
    assert!(!bench.path("run-blame").exists());

    let rotated = "weight = \"E5M2\"\nactivation = \"E5M2\"\ngrad = \"E5M2\"\ntransform = { hadamard = 4 }\nsource = \"dequantized\"\ncast.grad_wgrad.source = \"hp\"";
    bench.write("run.toml", &TINY.replace("weight = \"E5M2\"", rotated));
    assert_eq!(bench.host(&["blame", "run.toml", "--budget", "0min"]).code, 0);
    let record: Value = serde_json::from_str(&bench.read("run-blame/blame.json")).unwrap();
    let causes: Vec<&str> = record["causes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let head = causes.iter().filter(|cause| cause.ends_with(":wte.weight"));
    let roles: Vec<&str> = head.filter_map(|cause| cause.split(':').next()).collect();
    assert_eq!(roles, ["activation+weight", "grad+weight_dgrad", "grad_wgrad+activation_wgrad"]);
    for roles in roles {
        let unrounded: Vec<String> = roles.split('+').map(|role| format!("\"{role}\"")).collect();
        let set = format!("quant.unrounded=[{}]", unrounded.join(", "));
        let outcome = bench.host(&["check", "run.toml", "--set", &set]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
}
