//! `run --profile`: a trace of steps that changes no result.

use altgrad_end_to_end::{Bench, TINY, assert_same_run};
use serde_json::Value;

/// The slices of a name: start and end.
fn slices(trace: &Value, name: &str) -> Vec<(f64, f64)> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let named = events.filter(|event| event["name"] == name && event["ph"] == "X");
    named.map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())).collect()
}

#[test]
fn a_trace_has_the_phases_of_its_steps_and_changes_nothing() {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"csv\"\n"));
    for (out, profile) in [("plain", &[][..]), ("traced", &["--profile", "3"])] {
        let args = [&["run", "tiny.toml", "--out", out], profile].concat();
        let outcome = bench.host(&args);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(outcome.stdout.contains("traced/profile.json"), out == "traced", "{}", outcome.stdout);
    }
    assert_same_run(&bench, "plain", "traced");
    assert!(!bench.path("plain/profile.json").exists());
    let trace: Value = serde_json::from_str(&bench.read("traced/profile.json")).unwrap();
    // Steps 1 to 3; an evaluation every second step.
    for (name, count) in [("step", 3), ("forward", 3), ("backward", 3), ("update", 3), ("evaluation", 1)] {
        assert_eq!(slices(&trace, name).len(), count, "{name}: {trace}");
    }
    let steps = slices(&trace, "step");
    for (start, duration) in slices(&trace, "forward") {
        let is_inside = |(from, length): &(f64, f64)| *from <= start && start + duration <= from + length;
        assert!(steps.iter().any(is_inside), "{trace}");
    }
}

#[test]
fn a_trace_longer_than_the_run_has_the_steps_there_are() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--profile", "99"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let trace: Value = serde_json::from_str(&bench.read("runs/tiny/profile.json")).unwrap();
    assert_eq!(slices(&trace, "step").len(), 5);
}
