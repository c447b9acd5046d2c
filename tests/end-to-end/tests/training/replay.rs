//! `replay` along the recorded trajectory: agreement with PyTorch, and refusals.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, fixture};
use serde_json::Value;

fn file(name: &str) -> String {
    fixture("trajectory").join(name).display().to_string()
}

/// The recorded log.
fn recorded() -> Value {
    serde_json::from_str(&fs::read_to_string(file("log.json")).unwrap()).unwrap()
}

/// Replays a log from the recorded weights.
fn replay(bench: &Bench, log: &Value, more: &[&str]) -> Outcome {
    bench.write("log.json", &log.to_string());
    let (init, text) = (file("init.safetensors"), file("text.txt"));
    let args = ["replay", "log.json", "--init", init.as_str(), "--text", text.as_str()];
    bench.host(&[&args, more].concat())
}

/// The line of a check: `losses 2.38e-7  within 3e-6`.
#[track_caller]
fn check<'a>(outcome: &'a Outcome, what: &str) -> &'a str {
    let found = outcome.stdout.lines().find(|line| line.starts_with(what));
    found.unwrap_or_else(|| panic!("no `{what}`: {}{}", outcome.stdout, outcome.stderr))
}

#[test]
fn losses_norms_and_gradients_match_pytorch() {
    let outcome = replay(&Bench::new(), &recorded(), &["--grads", &file("grad0.safetensors")]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for what in ["first loss", "losses", "gradient norms", "learning rates", "first gradients"] {
        assert!(check(&outcome, what).contains("within"), "{}", outcome.stdout);
    }
}

#[test]
fn settings_that_are_not_the_recordings_are_refused() {
    for (key, value) in
        [("weight_decay", 0.0), ("weight_decay", 0.09), ("grad_clip", 0.5), ("grad_clip", 0.0), ("eps", 1e-6)]
    {
        let mut log = recorded();
        log["config"][key] = value.into();
        let outcome = replay(&Bench::new(), &log, &[]);
        assert_eq!(outcome.code, 1, "{key} = {value}: {}{}", outcome.stdout, outcome.stderr);
        assert!(check(&outcome, "losses").contains("BEYOND 3e-6"), "{key} = {value}: {}", outcome.stdout);
        assert!(check(&outcome, "first loss").contains("within"), "{key} = {value}: {}", outcome.stdout);
    }
}

#[test]
fn weights_are_written_and_compared() {
    let bench = Bench::new();
    let log = recorded();
    let written = replay(&bench, &log, &["--weights-out", "after.safetensors"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert!(!written.stdout.contains("weights after"), "{}", written.stdout);
    let after =
        |log: &Value| replay(&bench, log, &["--weights-after", "after.safetensors", "--tolerance", "1"]);
    let same = after(&log);
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    assert!(check(&same, "weights after (relative)").contains("0.00e0  within"), "{}", same.stdout);
    for (key, value) in [("weight_decay", 0.0), ("grad_clip", 0.5)] {
        let mut log = log.clone();
        log["config"][key] = value.into();
        let other = after(&log);
        assert_eq!(other.code, 1, "{}{}", other.stdout, other.stderr);
        assert!(check(&other, "weights after (relative)").contains("BEYOND"), "{}", other.stdout);
        assert!(check(&other, "  wte.weight").contains("e-"), "{}", other.stdout);
    }
    // Weights of another model are refused, not compared.
    let other = replay(&bench, &log, &["--weights-after", "log.json"]);
    assert_eq!(other.code, 2, "{}{}", other.stdout, other.stderr);
}

#[test]
fn a_replay_that_turns_nan_is_no_match() {
    let bench = Bench::new();
    assert_eq!(replay(&bench, &recorded(), &[]).code, 0);
    let mut wild = recorded();
    wild["config"]["lr"] = 1e38.into();
    let outcome = replay(&bench, &wild, &[]);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    let losses = check(&outcome, "losses");
    assert!(losses.contains("NaN") && losses.contains("BEYOND"), "{losses}");
    wild["steps"] = Value::Array(Vec::new());
    assert_eq!(replay(&bench, &wild, &[]).code, 2);
}
