//! Runs that continue until an event ends them, and their processes.

use std::{
    fs,
    process::{Child, Command},
};

use altgrad_end_to_end::{Bench, TINY, started_by, wait};

/// A run that continues until it is stopped, and has begun.
pub fn endless(more: &[&str]) -> (Bench, Child) {
    endless_by(&["env"], more)
}

/// The same, started by another program.
pub fn endless_by(starter: &[&str], more: &[&str]) -> (Bench, Child) {
    endless_in(Bench::new(), starter, more)
}

/// The same in a folder that has files already.
pub fn endless_in(bench: Bench, starter: &[&str], more: &[&str]) -> (Bench, Child) {
    bench.write("run.toml", &format!("{TINY}\n[checkpoint]\nevery = 0\nkeep_best = false\n"));
    let args = ["run", "run.toml", "--quiet", "--out", "run", "--set", "train.max_steps=100000000"];
    let mut command = started_by(starter, &bench.command(&[args.as_slice(), more].concat()));
    let child = command.stderr(fs::File::create(bench.path("stderr")).unwrap()).spawn().unwrap();
    wait(|| {
        fs::read_to_string(bench.path("run/run.json")).is_ok_and(|text| text.contains("best_val_step\": 2"))
    });
    (bench, child)
}

/// Processes that a process started.
pub fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

pub fn send(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// True if a process runs; a zombie does not.
pub fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
