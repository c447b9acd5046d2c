//! Failing operations on files: a resumed run ends with the same results as the undisturbed run, and `run.json` records
//! every lost row.
//!
//! A library that is preloaded into the host (`fixtures/io_faults.c`) fails a random operation on the run folder: no
//! space (ENOSPC), an error of the device (EIO), a write of half the bytes, and half the bytes with no space for the
//! rest; for one operation, for several, or from there on.

#![cfg(target_os = "linux")]

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use altgrad_end_to_end::{Bench, Outcome, Random, TINY, difference, fixture, skipped};
use serde_json::Value;

/// Steps of the run; half of the faults affect its first half, the others a run that resumes from there.
const STEPS: usize = 40;
/// Faults: the failure, and the number of operations.
const FAULTS: [(&str, u32); 8] = [
    ("ENOSPC", 1),
    ("ENOSPC", 20),
    ("ENOSPC", u32::MAX),
    ("EIO", 1),
    ("EIO", 20),
    ("SHORT", 1),
    ("SHORT", u32::MAX),
    ("SHORT+ENOSPC", 20),
];
/// Files of the csv sink that are equal in equal runs.
const CSV: [&str; 3] = ["metrics.csv", "layers.csv", "histograms.csv"];

const MORE: &str = "\n[checkpoint]\nevery = 4\n[metrics]\nhistograms_every = 7\n\
    [alerts]\npatience = 2\ncooldown_s = 0\nnan_cooldown_s = 0\n[[sink]]\nname = \"csv\"\n";

/// The result of one fault.
#[derive(Default)]
struct Row {
    tried: u32,
    /// The fault was reached.
    met: u32,
    /// The run it met ended with exit code 0, or with an error and exit code 1 or 2.
    sound: u32,
    told: u32,
    /// Runs that lost rows in the end, and rows: all are in `run.json`.
    lossy: u32,
    lost_rows: u64,
    /// Runs whose `events.jsonl` lacks lines, which the run that lost them reported.
    lost_events: u32,
}

/// The preloaded library, made here.
fn shim(folder: &Path) -> Result<String, String> {
    let library = folder.join("io_faults.so");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(fixture("io_faults.c"));
    let output = compiler.arg("-ldl").output().map_err(|error| format!("cc cannot be started: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(library.display().to_string())
}

/// Trains into `out`, up to step `steps`, with `fault`: the failure, the first operation, the number of operations.
fn train(bench: &Bench, shim: &str, (out, steps): (&str, usize), fault: Option<(&str, u64, u32)>) -> Outcome {
    let (steps, folder) = (steps.to_string(), bench.path(out));
    let args = ["run", "run.toml", "--quiet", "--resume", "--out", out, "--max-steps", &steps];
    let (Some((what, at, times)), log) = (fault, bench.path("log")) else { return bench.host(&args) };
    let _ = fs::remove_file(&log);
    let (at, times) = (at.to_string(), times.to_string());
    let env = [
        ("LD_PRELOAD", shim),
        ("ALTGRAD_FAULT_FOLDER", folder.to_str().unwrap()),
        ("ALTGRAD_FAULT_LOG", log.to_str().unwrap()),
        ("ALTGRAD_FAULT", what),
        ("ALTGRAD_FAULT_AT", &at),
        ("ALTGRAD_FAULT_TIMES", &times),
    ];
    bench.host_with(&args, &env)
}

/// Operations of a run that nothing fails in.
fn operations(bench: &Bench, shim: &str, out: (&str, usize)) -> u64 {
    let outcome = train(bench, shim, out, Some(("none", u64::MAX >> 1, 0)));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let log = bench.read("log");
    let counts = log.lines().filter_map(|line| line.strip_prefix("operations ")?.parse::<u64>().ok());
    counts.max().filter(|count| *count > 100).unwrap_or_else(|| panic!("the library sees nothing: {log}"))
}

fn status(bench: &Bench, run: &str) -> Value {
    serde_json::from_str(&bench.read(&format!("{run}/run.json"))).unwrap()
}

/// The number of steps for which a file of `run` lacks lines of `whole`; all lines that it has are lines of `whole`.
fn lost_rows(bench: &Bench, run: &str, file: &str) -> Result<u64, String> {
    let read = |run: &str| bench.read(&format!("{run}/{file}"));
    let (whole, found) = (read("whole"), read(run));
    let step = |line: &str| line.split(',').next().unwrap_or_default().to_string();
    let by_step = |text: &str| -> BTreeMap<String, Vec<String>> {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        text.lines().for_each(|line| rows.entry(step(line)).or_default().push(line.to_string()));
        rows
    };
    let (whole, found) = (by_step(&whole), by_step(&found));
    let rows = |step: &String| whole.get(step).map_or(&[][..], Vec::as_slice);
    if let Some((step, _)) = found.iter().find(|(step, lines)| !rows(step).starts_with(lines)) {
        return Err(format!("{file}, step {step} is not that of the undisturbed run"));
    }
    Ok(whole.iter().filter(|(step, lines)| found.get(*step) != Some(lines)).count() as u64)
}

/// The error of a run that resumed after a fault, if there is one; else the number of lost rows, which `run.json`
/// records, and whether its file of events is incomplete, which the run with the fault reported at its end.
fn judge(bench: &Bench, run: &str, [met, outcome]: [&Outcome; 2]) -> Result<(u64, bool), String> {
    let status = status(bench, run);
    let sink = &status["sinks"][0];
    let count = |key: &str| sink[key].as_u64().unwrap_or_default();
    let gaps = sink["gaps"].as_array().map_or(0, Vec::len);
    let known = count("missing_rows");
    if known == 0 && gaps == 0 && outcome.code == 0 {
        let told = met.stderr.contains("events are missing from their file");
        return match difference(bench, "whole", run) {
            None => Ok((0, false)),
            Some(what) if what.starts_with("events: ") && told => Ok((0, true)),
            Some(what) => Err(what),
        };
    }
    // Files that no sink can change are equal nevertheless.
    for file in [
        "weights.safetensors",
        "checkpoints/last/model.safetensors",
        "checkpoints/last/optimizer.safetensors",
    ] {
        let bytes = |run: &str| fs::read(bench.path(run).join(file)).unwrap();
        if bytes("whole") != bytes(run) {
            return Err(format!("{file} differs"));
        }
    }
    let mut most = 0;
    for file in CSV {
        most = most.max(lost_rows(bench, run, file)?);
    }
    // With that of the final evaluation.
    if known + count("rows") != STEPS as u64 + 1 {
        return Err(format!("rows of {STEPS} steps: {sink}"));
    }
    if most > known && gaps == 0 || (known > 0 || gaps > 0) && outcome.code != 1 {
        return Err(format!("{most} rows are lost, exit code {}: {sink}", outcome.code));
    }
    Ok((most.max(known), false))
}

/// Tries that many faults; prints their results.
fn survive(name: &str, faults: u32) {
    let (bench, mut random) = (Bench::new(), Random::of_run());
    let seed = random.seed;
    let shim = match shim(&bench.path("")) {
        Ok(shim) => shim,
        Err(why) => return skipped(name, &why),
    };
    let file = TINY.replace("max_steps = 6", &format!("max_steps = {STEPS}"));
    bench.write("run.toml", &(file + MORE));
    let half = STEPS / 2;
    let due = [operations(&bench, &shim, ("whole", half)), operations(&bench, &shim, ("whole", STEPS))];
    let mut table: BTreeMap<String, Row> = BTreeMap::new();
    for number in 0..faults {
        let (what, times) = FAULTS[number as usize % FAULTS.len()];
        let out = format!("run-{number}");
        let later = usize::from(number as usize / FAULTS.len() % 2 == 1);
        let at = (random.unit() * due[later] as f64) as u64;
        let place = format!("seed {seed}, {what} x {times} at operation {at} of part {later}");
        if later == 1 {
            assert_eq!(train(&bench, &shim, (&out, half), None).code, 0, "{place}");
        }
        let met =
            train(&bench, &shim, (&out, if later == 1 { STEPS } else { half }), Some((what, at, times)));
        assert!((0..=2).contains(&met.code), "{place}: exit code {}: {}", met.code, met.stderr);
        let log = bench.read("log");
        let reached = log.contains(" at ");
        assert!(met.code == 0 || reached && !met.stderr.trim().is_empty(), "{place}: {}", met.stderr);
        let after = train(&bench, &shim, (&out, STEPS), None);
        // If no checkpoint could be written, the run said so and there is nothing to resume from, which is said too.
        let has_none = after.code != 0 && after.stderr.contains("its folder has no checkpoint");
        let is_told = met.code != 0 && met.stderr.contains("the checkpoint step-");
        assert!(!has_none || is_told, "{place}: {}{}", met.stderr, after.stderr);
        let judged = if has_none { Ok((0, false)) } else { judge(&bench, &out, [&met, &after]) };
        let (lost, lost_events) = judged.unwrap_or_else(|wrong| {
            panic!("{place}: {wrong}\n--- met: {log}{}\n--- after: {}", met.stderr, after.stderr)
        });
        let times = if times == u32::MAX { "all".into() } else { times.to_string() };
        let row = table.entry(format!("{what} x {times}")).or_default();
        row.tried += 1;
        row.met += u32::from(reached);
        row.sound += u32::from(met.code == 0);
        row.told += u32::from(met.code != 0);
        row.lossy += u32::from(lost > 0);
        row.lost_rows += lost;
        row.lost_events += u32::from(lost_events);
        fs::remove_dir_all(bench.path(&out)).unwrap();
    }
    eprintln!(
        "| fault, operations | tried | met | exit code 0 | told, exit code 1 or 2 | lost rows after resuming | rows lost, all in run.json | events lost, told |"
    );
    eprintln!("|---|---|---|---|---|---|---|---|");
    for (what, row) in &table {
        let Row { tried, met, sound, told, lossy, lost_rows, lost_events } = row;
        eprintln!("| {what} | {tried} | {met} | {sound} | {told} | {lossy} | {lost_rows} | {lost_events} |");
    }
    eprintln!("parameters, optimizer states and all rows that are there: bit-identical in all {faults}");
}

#[test]
#[ignore = "--all: I/O errors"]
fn runs_whose_disk_fails_end_where_the_undisturbed_one_does() {
    survive("runs_whose_disk_fails_end_where_the_undisturbed_one_does", FAULTS.len() as u32);
}

#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_hundred_io_errors() {
    survive("on_demand_hundred_io_errors", 104);
}
