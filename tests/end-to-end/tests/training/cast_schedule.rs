//! Casts that change during a run: from a step on, or on an alert; and going on from before and after a change.

use std::fs;

use altgrad_end_to_end::{Bench, TINY, assert_same_run};
use serde_json::Value;

/// Twelve steps that measure all they can, with a schedule. Alerts do not depend on the clock, but for one that fires
/// once.
fn run_file(schedule: &str) -> String {
    TINY.replace("max_steps = 6", "max_steps = 12")
        .replace("weight = \"E5M2\"", "weight = \"E4M3\"\nactivation = \"E4M3\"")
        + &format!(
            "[quant.scaling]\namax = \"delayed\"\nwindow = 3\n{schedule}\n\
             [metrics]\nhistograms_every = 1\n[shadow]\nevery = 3\n\
             [alerts]\npatience = 3\nkurtosis_growth = 0.0\nkurtosis_threshold = 0.1\ncooldown_s = 1e6\n[[sink]]\nname = \"csv\"\n"
        )
}

fn runs(bench: &Bench, args: &[&str]) {
    let outcome = bench.host(&[&["run", "run.toml", "--quiet"], args].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
}

fn switches(bench: &Bench, run: &str) -> Vec<(u64, u64)> {
    let record: Value = serde_json::from_str(&bench.read(&format!("{run}/run.json"))).unwrap();
    let number = |switch: &Value, key: &str| switch[key].as_u64().unwrap();
    let list = record["schedule"].as_array().unwrap().iter();
    list.map(|switch| (number(switch, "entry"), number(switch, "step"))).collect()
}

#[test]
fn a_run_goes_on_from_before_and_after_every_change_of_its_casts() {
    let steps = "[[quant.schedule]]\nat = 4\nactivation = \"none\"\ngrad = \"E5M2\"\n\
        [[quant.schedule]]\nat = \"67%\"\nnone = true\nprecision = \"bf16\"";
    let alert = "[[quant.schedule]]\non = \"kurtosis\"\nrecipe = \"mxfp8\"\n";
    let stored = "[[quant.schedule]]\nat = 5\nactivation = \"E5M2\"";
    for (name, schedule, expected) in [
        ("steps", steps, vec![(0, 4), (1, 9)]),
        ("alert", alert, vec![(0, 3)]),
        ("stored", stored, vec![(0, 5)]),
    ] {
        let bench = Bench::new();
        let text = match name {
            "stored" => run_file(schedule).replace("[quant]\n", "[quant]\nmaster_weights = \"none\"\n"),
            _ => run_file(schedule),
        };
        bench.write("run.toml", &text);
        runs(&bench, &["--out", "whole"]);
        assert_eq!(switches(&bench, "whole"), expected, "{name}");
        for stop in ["2", "3", "4", "5", "10", "12"] {
            runs(&bench, &["--out", "parts", "--resume", "--max-steps", stop]);
        }
        assert_same_run(&bench, "whole", "parts");
        assert_eq!(switches(&bench, "parts"), expected, "{name}");
        // From a checkpoint that holds a change, whose event stays.
        let often = ["--set", "checkpoint.every=1", "--set", "checkpoint.keep_last=20"];
        runs(&bench, &[&["--out", "held", "--max-steps", "10"], &often[..]].concat());
        let held = format!("held/checkpoints/step-{:06}", expected[0].1);
        runs(&bench, &["--out", "held", "--resume", &held]);
        assert_same_run(&bench, "whole", "held");
        let events = bench.read("whole/events.jsonl");
        assert_eq!(events.lines().filter(|line| line.contains("casts_switched")).count(), expected.len());
    }
}

#[test]
fn a_change_is_what_a_fork_of_the_checkpoint_before_it_is() {
    let bench = Bench::new();
    bench.write("run.toml", &run_file("[[quant.schedule]]\nat = 6\nnone = true\nprecision = \"bf16\""));
    runs(&bench, &["--out", "scheduled"]);
    bench.write("run.toml", &run_file(""));
    runs(&bench, &["--out", "plain", "--max-steps", "6"]);
    let casts = "[quant.scaling]\namax = \"delayed\"\nwindow = 3\n";
    let unquantized = run_file("").replace("weight = \"E4M3\"\nactivation = \"E4M3\"", "").replace(casts, "");
    bench.write("run.toml", &unquantized);
    let from = "plain/checkpoints/step-000006";
    runs(&bench, &["--out", "fork", "--resume", from, "--resume-anyway", "--set", "train.precision=bf16"]);
    // Behind the header, which names the schedule of the run.
    let weights = |run: &str| {
        let bytes = fs::read(bench.path(&format!("{run}/weights.safetensors"))).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(weights("scheduled") == weights("fork"), "the weights differ");
    assert!(weights("scheduled") != weights("plain"));
    // Weights are used with the casts that were in force.
    let evaluated = bench.host(&["evaluate", "scheduled"]);
    assert!(evaluated.code == 0 && evaluated.stdout.contains("unquantized bf16"), "{}", evaluated.stdout);
    let evaluated = bench.host(&["evaluate", "plain"]);
    assert!(evaluated.stdout.contains("weights E4M3"), "{}", evaluated.stdout);
    // The weights themselves tell them, and so do those of checkpoints.
    let record = bench.read("scheduled/run.json");
    bench.write("scheduled/run.json", &record[..record.len() / 2]);
    for model in ["scheduled", "scheduled/checkpoints/last"] {
        let evaluated = bench.host(&["evaluate", model]);
        assert!(evaluated.stdout.contains("unquantized bf16"), "{}{}", evaluated.stdout, evaluated.stderr);
    }
}

#[test]
fn other_alerts_change_nothing_and_a_trigger_ignores_the_cooldown() {
    let bench = Bench::new();
    // The alert has fired at step 2 already when the entry is first looked at, and its cooldown never ends.
    bench.write("run.toml", &run_file("[[quant.schedule]]\non = \"kurtosis\"\nnone = true\n"));
    runs(&bench, &["--out", "alert"]);
    assert_eq!(switches(&bench, "alert"), [(0, 3)]);
    let metrics = bench.metrics("alert");
    let measured: Vec<bool> = metrics["quant/sqnr_db"].iter().map(|cell| !cell.is_empty()).collect();
    assert_eq!(measured[..3], [true; 3]);
    assert_eq!(measured[3..], [false; 9]);
    bench.write("run.toml", &run_file(""));
    runs(&bench, &["--out", "loud"]);
    runs(&bench, &["--out", "silent", "--set", "alerts.kurtosis_threshold=off"]);
    let weights = |run: &str| fs::read(bench.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("loud") == weights("silent"));
    // An alert that changes casts is part of the run.
    bench.write("run.toml", &run_file("[[quant.schedule]]\non = \"kurtosis\"\nnone = true\n"));
    let other = ["run", "run.toml", "--out", "alert", "--resume", "--set", "alerts.patience=4"];
    let outcome = bench.host(&other);
    assert!(outcome.code != 0 && outcome.stderr.contains("alerts.patience"), "{}", outcome.stderr);
}

#[test]
fn phases_are_shown_and_refused_before_the_first_step() {
    let bench = Bench::new();
    bench.write("run.toml", &run_file("[[quant.schedule]]\nat = 6\nweight = \"E5M2\"\n"));
    let shown = bench.host(&["casts", "show", "run.toml"]);
    assert!(shown.code == 0 && shown.stdout.contains("quant.schedule.0, at step 6"), "{}", shown.stdout);
    bench.write("run.toml", &run_file("[[quant.schedule]]\nat = 6\nnone = true\nprecision = \"bf16\"\n"));
    let shown = bench.host(&["casts", "show", "run.toml"]).stdout;
    let (_, phase) = shown.split_once("unquantized bf16").unwrap();
    assert!(phase.contains(" bf16 ") && !phase.contains(" f32 "), "{phase}");
    bench.write("run.toml", &run_file("[[quant.schedule]]\nat = 6\nweight = \"E5M9\"\n"));
    let refused = bench.host(&["check", "run.toml"]);
    assert!(refused.code != 0 && refused.stderr.contains("quant.schedule.0"), "{}", refused.stderr);
    assert!(refused.stderr.contains("run.toml:"), "{}", refused.stderr);
}
