//! Comparing runs: two that should be bit-identical, except for times and the fate of their processes.

use std::fs;

use super::Bench;

/// Events about the process, which an uninterrupted run does not have.
const OF_THE_PROCESS: [&str; 4] = ["checkpoint", "checkpoint_failed", "resumed", "interrupted"];
/// The fields of `run.json` that describe the training.
const SAID: [&str; 8] = [
    "status",
    "steps",
    "final_train_loss",
    "final_val_loss",
    "best_val_loss",
    "best_val_step",
    "diverged_step",
    "tokens",
];
/// Files of the last state.
const TENSORS: [&str; 4] = [
    "weights.safetensors",
    "checkpoints/last/model.safetensors",
    "checkpoints/last/optimizer.safetensors",
    "checkpoints/last/meter.safetensors",
];

/// The run's events without their times, those about its processes left out.
#[must_use]
pub fn events(bench: &Bench, run: &str) -> Vec<String> {
    let text = bench.read(&format!("{run}/events.jsonl"));
    let of_the_process =
        |line: &&str| OF_THE_PROCESS.iter().any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")));
    let untimed = |line: &str| line.split_once(',').map_or(String::new(), |(_, rest)| rest.to_string());
    text.lines().filter(|line| !of_the_process(line)).map(untimed).collect()
}

/// The first difference between run `b` and run `a`, which should be equal: metrics, parameters, buffers, events,
/// result.
#[must_use]
pub fn difference(bench: &Bench, a: &str, b: &str) -> Option<String> {
    let files = TENSORS.into_iter().chain(["metrics.csv"]);
    for file in files {
        let bytes = |run: &str| fs::read(bench.path(run).join(file));
        match (bytes(a), bytes(b)) {
            (Ok(a), Ok(b)) if a == b => {}
            (Ok(_), Ok(_)) => return Some(format!("{file} differs")),
            (a, b) => return Some(format!("{file}: {:?}, {:?}", a.err(), b.err())),
        }
    }
    if events(bench, a) != events(bench, b) {
        return Some(format!("events: {:#?} and {:#?}", events(bench, a), events(bench, b)));
    }
    let said = |run: &str| -> Vec<String> {
        let text = bench.read(&format!("{run}/run.json"));
        let said = |line: &&str| SAID.iter().any(|key| line.starts_with(&format!("  \"{key}\":")));
        text.lines().filter(said).map(str::to_string).collect()
    };
    (said(a) != said(b)).then(|| format!("run.json: {:#?} and {:#?}", said(a), said(b)))
}

/// Fails unless run `b` is run `a` again.
#[allow(clippy::missing_panics_doc)]
pub fn assert_same_run(bench: &Bench, a: &str, b: &str) {
    if let Some(difference) = difference(bench, a, b) {
        panic!("{b} is not {a}: {difference}");
    }
}
