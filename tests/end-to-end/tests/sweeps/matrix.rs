//! `sweep`: the matrix, its refusals, work that is done exactly once, rates found by trials.

#![cfg(unix)]

use std::{
    fs,
    process::{Command, Stdio},
};

use altgrad_end_to_end::{Bench, TINY, assert_same_run, wait};
use insta::assert_snapshot;
use serde_json::Value;

/// Two formats, two seeds, a csv sink.
const MATRIX: &str = r#"base = "tiny.toml"
name = "m"
[set]
train.max_steps = 8
[axes]
quant.weight = ["E5M2", "E4M3"]
run.seed = [1, 2]
"#;
const RUNS: [&str; 4] = ["E5M2_s1", "E5M2_s2", "E4M3_s1", "E4M3_s2"];

/// A bench with the base and a matrix.
fn bench(matrix: &str) -> Bench {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}\n[checkpoint]\nevery = 2\n[[sink]]\nname = \"csv\"\n"));
    bench.write("m.toml", matrix);
    bench
}

fn results(bench: &Bench) -> Value {
    serde_json::from_str(&bench.read("runs/m/sweep.json")).unwrap()
}

fn run_of<'a>(results: &'a Value, name: &str) -> &'a Value {
    results["runs"].as_array().unwrap().iter().find(|run| run["name"] == name).unwrap()
}

#[test]
fn every_combination_is_run_once_and_is_the_run_it_would_be_alone() {
    let bench = bench(MATRIX);
    let first = bench.host(&["sweep", "m.toml", "--jobs", "2", "--threads", "1"]);
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let written: Vec<Vec<u8>> =
        RUNS.map(|run| fs::read(bench.path(&format!("runs/m/{run}/run.json"))).unwrap()).into();
    for run in RUNS {
        assert!(first.stdout.contains(run), "{}", first.stdout);
    }
    let alone = [
        "run",
        "tiny.toml",
        "--set",
        "train.max_steps=8",
        "--set",
        "quant.weight=E4M3",
        "--set",
        "run.seed=2",
    ];
    let env = [("RAYON_NUM_THREADS", "1")];
    assert_eq!(bench.host_with(&[&alone[..], &["--out", "alone"]].concat(), &env).code, 0);
    assert_same_run(&bench, "alone", "runs/m/E4M3_s2");
    // A second start finds nothing to do and changes nothing.
    let second = bench.host(&["sweep", "m.toml"]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    for (run, before) in RUNS.iter().zip(&written) {
        assert_eq!(&fs::read(bench.path(&format!("runs/m/{run}/run.json"))).unwrap(), before);
    }
    let results = results(&bench);
    let names: Vec<&str> =
        results["runs"].as_array().unwrap().iter().filter_map(|run| run["name"].as_str()).collect();
    assert_eq!(names, RUNS);
    let run = run_of(&results, "E4M3_s1");
    assert_eq!((&run["state"], &run["steps"]), (&"completed".into(), &8.into()));
    assert!(run["final_val_loss"].as_f64().unwrap() > 0.0);
    assert_eq!(run["axes"]["quant.weight"], "E4M3");
    assert_eq!(results["threads"], 1);
}

#[test]
fn chosen_runs_are_made_and_the_others_later() {
    let bench = bench(MATRIX);
    let sweep = |more: &[&str]| bench.host(&[&["sweep", "m.toml", "--threads", "1"], more].concat());
    let unknown = sweep(&["--only", "E5M3"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("no run of the matrix has this in its name"), "{}", unknown.stderr);
    assert!(!bench.path("runs/m").exists());
    let chosen = sweep(&["--only", "E5M2", "--only", "E4M3_s2"]);
    assert_eq!(chosen.code, 0, "{}{}", chosen.stdout, chosen.stderr);
    let states = || RUNS.map(|run| run_of(&results(&bench), run)["state"].clone());
    assert_eq!(states(), ["completed", "completed", "missing", "completed"]);
    assert_eq!(sweep(&[]).code, 0);
    assert_eq!(states(), ["completed"; 4]);
}

#[test]
fn each_fault_of_a_matrix_is_placed_and_nothing_is_written() {
    // A text of the matrix, and its replacement.
    let rows = [
        ("base = \"tiny.toml\"", ""),
        ("tiny.toml", "tinny.toml"),
        ("name = \"m\"", "nam = \"m\""),
        ("name = \"m\"", "name = \"a/b\""),
        ("train.max_steps", "train.max_step"),
        ("\"E4M3\"", "\"E4M9\""),
        ("\"E4M3\"", "\"E5M2\""),
        ("[1, 2]", "1"),
        ("[1, 2]", "[]"),
        ("run.seed", "run.name"),
        ("run.seed", "train.max_steps"),
        ("run.seed", "optimizer"),
        ("[axes]", "[[exclude]]\nquant.weigth = \"E5M2\"\n[axes]"),
        ("[axes]", "[[exclude]]\nquant.weight = \"E7M0\"\n[axes]"),
        ("[axes]", "[[axes.o]]\nlabel = \"a\"\nlr = 1\n[axes]"),
        ("[axes]", "[tune]\nseed = 1\n[axes]"),
        ("[axes]", "[tune]\nvalues = [0.1]\nrungs = [8]\n[axes]"),
        ("[axes]", "[stable]\nfrom = 2.0\n[axes]"),
    ];
    let mut page = String::new();
    for (from, to) in rows {
        let bench = bench(&MATRIX.replacen(from, to, 1));
        let outcome = bench.host(&["sweep", "m.toml"]);
        assert_eq!(outcome.code, 2, "{to}: {}{}", outcome.stdout, outcome.stderr);
        assert!(!bench.path("runs").exists(), "{to}: something was written");
        let change = format!("{from} -> {to}").replace('\n', "; ");
        page += &format!("=== {change}\n{}\n", bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("matrix_faults", page);
    let bench = bench(MATRIX);
    assert_eq!(bench.host(&["sweep", "m.toml", "--check"]).code, 0);
    assert!(!bench.path("runs").exists());
}

#[test]
fn a_warning_that_all_seeds_share_is_printed_once() {
    let bench = bench(&MATRIX.replace("quant.weight = [\"E5M2\", \"E4M3\"]", "quant.grad = [\"E2M1\"]"));
    let said = bench.host(&["sweep", "m.toml", "--check"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stderr.matches("zeroes small elements").count(), 1, "{}", said.stderr);
}

#[test]
fn a_run_that_fails_stops_no_other_and_is_tried_again() {
    let bench = bench(MATRIX);
    // A folder in use is refused as a whole, before any run.
    bench.write("runs/m2/notes", "mine");
    bench.write("m2.toml", &MATRIX.replace("\"m\"", "\"m2\""));
    let foreign = bench.host(&["sweep", "m2.toml"]);
    assert_eq!(foreign.code, 2, "{}", foreign.stderr);
    assert!(foreign.stderr.contains("the sweep's folder holds something else"), "{}", foreign.stderr);

    // One run cannot write its metrics: its place is taken between the check and its start, by a folder.
    assert_eq!(bench.host(&["sweep", "m.toml", "--quiet"]).code, 0);
    let folder = bench.path("runs/m/E5M2_s2");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("run.json"), "{\"status\": \"running\"}").unwrap();
    fs::create_dir(folder.join("config.toml")).unwrap();
    let failed = bench.host(&["sweep", "m.toml"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let results = results(&bench);
    assert!(run_of(&results, "E5M2_s2")["failure"].as_str().unwrap().contains("config.toml"), "{results}");
    assert_eq!(run_of(&results, "E4M3_s2")["state"], "completed");
    fs::remove_dir(folder.join("config.toml")).unwrap();
    let again = bench.host(&["sweep", "m.toml"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(run_of(&self::results(&bench), "E5M2_s2")["steps"], 8);
}

#[test]
fn a_run_that_diverges_is_reported_and_not_begun_again() {
    let axis = "\"E4M3\"]\ntrain.lr = [0.01, 1e18]\n";
    let bench = bench(
        &MATRIX
            .replace("\"E4M3\"]\n", axis)
            .replace("max_steps = 8", "max_steps = 30")
            .replace("[1, 2]", "[1]"),
    );
    let first = bench.host(&["sweep", "m.toml", "--jobs", "2"]);
    assert_eq!(first.code, 1, "{}{}", first.stdout, first.stderr);
    assert!(first.stderr.contains("all runs are done; some diverged"), "{}", first.stderr);
    let status = |name: &str| fs::read(bench.path(&format!("runs/m/{name}/run.json"))).unwrap();
    let before = status("E5M2_lr1e18_s1");
    assert_eq!(run_of(&results(&bench), "E5M2_lr0.01_s1")["state"], "completed");
    assert_eq!(run_of(&results(&bench), "E5M2_lr1e18_s1")["state"], "diverged");
    assert_eq!(bench.host(&["sweep", "m.toml"]).code, 1);
    assert_eq!(status("E5M2_lr1e18_s1"), before);
}

#[test]
fn runs_that_have_begun_are_never_mixed_with_another_configuration() {
    let bench = bench(MATRIX);
    assert_eq!(bench.host(&["sweep", "m.toml", "--quiet"]).code, 0);
    let refused = |what: &str| {
        let outcome = bench.host(&["sweep", "m.toml"]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(what), "{}", outcome.stderr);
    };
    bench.write("m.toml", &MATRIX.replace("max_steps = 8", "max_steps = 9"));
    refused("the run E5M2_s1 was begun with another configuration: `train.decay_steps` is 9, was 8");
    bench.write("m.toml", MATRIX);
    let base = bench.read("tiny.toml");
    bench.write("tiny.toml", &base.replace("n_embd = 8", "n_embd = 16"));
    refused("`model.n_embd` is 16, was 8");
    bench.write("tiny.toml", &base);
    // More values are more runs.
    bench.write("m.toml", &MATRIX.replace("[1, 2]", "[1, 2, 3]"));
    let more = bench.host(&["sweep", "m.toml"]);
    assert_eq!(more.code, 0, "{}", more.stderr);
    assert_eq!(results(&bench)["runs"].as_array().unwrap().len(), 6);
}

#[test]
fn entries_of_an_axis_change_together_and_excluded_combinations_do_not_run() {
    let matrix = r#"base = "tiny.toml"
name = "m"
[axes]
"quant.weight" = ["E5M2", "E4M3"]
[[axes.optimizer]]
label = "adamw"
optimizer.name = "adamw"
train.lr = 0.02
[[axes.optimizer]]
label = "manifold"
optimizer.name = "fp8-manifold"
optimizer.ulp_per_lr = 100.0
[[exclude]]
quant.weight = "E4M3"
optimizer = "manifold"
"#;
    let bench = bench(matrix);
    let outcome = bench.host(&["sweep", "m.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let results = results(&bench);
    let names: Vec<&str> =
        results["runs"].as_array().unwrap().iter().filter_map(|run| run["name"].as_str()).collect();
    assert_eq!(names, ["E5M2_adamw", "E5M2_manifold", "E4M3_adamw"]);
    let config = |run: &str| bench.read(&format!("runs/m/{run}/config.toml"));
    assert!(config("E5M2_adamw").contains("\nlr = 0.02\n"));
    assert!(
        config("E5M2_manifold").contains("\nlr = 0.01\n")
            && config("E5M2_manifold").contains("ulp_per_lr = 100.0")
    );
}

#[test]
fn the_best_rate_is_found_by_trials_and_used_for_all_seeds() {
    let tune = "[tune]\nseed = 9\nvalues = [1e-6, 0.02, 1e-5, 1e-4]\nrungs = [10, 20]\n[axes]\n";
    let bench = bench(&MATRIX.replace("[axes]\n", tune).replace("max_steps = 8", "max_steps = 40"));
    let outcome = bench.host(&["sweep", "m.toml", "--jobs", "2", "--threads", "1"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let results = results(&bench);
    for tuned in results["tuned"].as_array().unwrap() {
        assert_eq!(
            (&tuned["chosen"], &tuned["at_edge"], &tuned["seed"]),
            (&0.02.into(), &true.into(), &9.into())
        );
        let steps: Vec<u64> =
            tuned["trials"].as_array().unwrap().iter().filter_map(|trial| trial["steps"].as_u64()).collect();
        assert_eq!(steps.iter().filter(|steps| **steps == 10).count(), 2, "{tuned}");
        assert_eq!(steps.iter().filter(|steps| **steps == 40).count(), 1, "{tuned}");
    }
    for run in RUNS {
        let config = bench.read(&format!("runs/m/{run}/config.toml"));
        assert!(config.contains("\nlr = 0.02\nmin_lr = 0.002\n"), "{config}");
    }
    // No trial is judged again.
    let before = bench.read("runs/m/sweep.json");
    assert_eq!(bench.host(&["sweep", "m.toml", "--quiet"]).code, 0);
    assert_eq!(bench.read("runs/m/sweep.json"), before);
    // Damaged records are refused, and kept.
    for (file, said) in [
        ("runs/m/.sweep/trials.json", "the outcomes of trials cannot be read ("),
        ("runs/m/sweep.json", "the sweep's results cannot be read ("),
    ] {
        let half = bench.read(file).split_at(40).0.to_string();
        bench.write(file, &half);
        let outcome = bench.host(&["sweep", "m.toml", "--quiet"]);
        assert!(outcome.code == 2 && outcome.stderr.contains(said), "{}", outcome.stderr);
        assert_eq!(bench.read(file), half);
    }
}

#[test]
fn rates_below_the_default_of_the_schedules_end_are_tried_with_a_constant_schedule() {
    let matrix = MATRIX.replace("[set]\n", "[set]\ntrain.schedule = \"constant\"\n");
    let bench = bench(&matrix.replace("[axes]\n", "[tune]\nvalues = [1e-6, 1e-5]\n[axes]\n"));
    bench.write("tiny.toml", &TINY.replace("min_lr = 0.001\n", ""));
    let outcome = bench.host(&["sweep", "m.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(results(&bench)["tuned"][0]["chosen"], 1e-5);
}

#[test]
fn runs_whose_trials_all_diverge_do_not_begin() {
    let matrix = MATRIX.replace("[axes]\n", "[tune]\nvalues = [1e30, 1e35]\n[axes]\n");
    let bench = bench(&matrix.replace("max_steps = 8", "max_steps = 30"));
    for _ in 0..2 {
        let outcome = bench.host(&["sweep", "m.toml", "--quiet"]);
        assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("the last trials of [tune] diverged"), "{}", outcome.stderr);
        assert!(outcome.stdout.contains("none: the last trials diverged"), "{}", outcome.stdout);
    }
}

/// Alerts measure nothing in trials, except where one switches casts.
#[test]
fn a_trial_switches_casts_on_alerts_as_its_run_does() {
    let matrix = MATRIX.replace("[axes]\n", "[tune]\nvalues = [0.01, 0.02]\n[axes]\n");
    let bench = bench(&matrix);
    let schedule = "[metrics]\nkurtosis_every = 1\n[[quant.schedule]]\non = \"kurtosis\"\nnone = true\n";
    bench.write("tiny.toml", &format!("{TINY}{schedule}"));
    let outcome = bench.host(&["sweep", "m.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn the_largest_stable_rate_is_bracketed() {
    let stable = "[stable]\nfrom = 0.01\nto = 1e15\nratio = 50\n[axes]\n";
    let bench = bench(
        &MATRIX
            .replace("[axes]\n", stable)
            .replace("max_steps = 8", "max_steps = 30")
            .replace("[1, 2]", "[1]"),
    );
    let outcome = bench.host(&["sweep", "m.toml", "--jobs", "2", "--threads", "1"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for stable in results(&bench)["stable"].as_array().unwrap() {
        let [low, high] = ["largest_stable", "smallest_unstable"].map(|key| stable[key].as_f64().unwrap());
        assert!(low >= 0.01 && high <= 1e15 && low < high && high / low <= 50.0, "{stable}");
        for trial in stable["trials"].as_array().unwrap() {
            let (value, is_stable) = (trial["value"].as_f64().unwrap(), trial["stable"].as_bool().unwrap());
            assert!(value != low || is_stable, "{stable}");
            assert!(value != high || !is_stable, "{stable}");
        }
    }
}

#[test]
fn sigterm_ends_runs_with_checkpoints_and_the_same_command_goes_on() {
    let bench = bench(&MATRIX.replace("max_steps = 8", "max_steps = 400"));
    let args = ["sweep", "m.toml", "--jobs", "2", "--threads", "1"];
    let mut child = bench.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| bench.path("runs/m/E5M2_s1/checkpoints/last").exists());
    // A second sweep of the folder is kept out.
    let other = bench.host(&args);
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("another process is running this sweep"), "{}", other.stderr);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let interrupted = |run: &&str| {
        let status = fs::read_to_string(bench.path(&format!("runs/m/{run}/run.json")));
        status.is_ok_and(|status| status.contains("\"status\": \"interrupted\""))
    };
    assert!(RUNS.iter().any(interrupted), "no run was stopped with a checkpoint");
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(RUNS.iter().all(|run| run_of(&results(&bench), run)["steps"] == 400));
}

/// A sweep that was interrupted and moved continues its runs in the new folder, and makes no other.
#[test]
fn a_moved_sweep_continues_its_runs_where_they_are() {
    let bench = bench(&MATRIX.replace("[\"E5M2\", \"E4M3\"]", "[\"E5M2\"]").replace("[1, 2]", "[1]"));
    assert_eq!(bench.host(&["sweep", "m.toml", "--quiet"]).code, 0);
    let rows = bench.read("runs/m/E5M2_s1/metrics.csv");
    // As if it had been killed after its last checkpoint.
    let status = bench.read("runs/m/E5M2_s1/run.json").replace("\"completed\"", "\"running\"");
    bench.write("runs/m/E5M2_s1/run.json", &status);
    fs::create_dir(bench.path("moved")).unwrap();
    fs::rename(bench.path("runs/m"), bench.path("moved/m")).unwrap();
    let outcome = bench.host(&["sweep", "m.toml", "--out", "moved"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!bench.path("runs/m").exists(), "the run began again in the old folder");
    assert_eq!(bench.read("moved/m/E5M2_s1/metrics.csv"), rows);
    assert!(bench.read("moved/m/E5M2_s1/run.json").contains("\"resumes\""));
}

/// A trial of the second rung that cannot begin, with the status of the first rung in its folder, is no result.
#[test]
fn a_trial_that_fails_at_a_later_rung_is_tried_again() {
    let tune = "[tune]\nvalues = [0.02, 0.01]\nrungs = [4]\n[axes]\n";
    let matrix = MATRIX.replace("[axes]\n", tune).replace("[\"E5M2\", \"E4M3\"]", "[\"E5M2\"]");
    let bench = bench(&matrix);
    let sweep = || bench.host(&["sweep", "m.toml", "--quiet"]);
    assert_eq!(sweep().code, 0);
    let tuned = || results(&bench)["tuned"][0].clone();
    let whole = tuned();
    // The winner, as it was at the end of the first rung, with a checkpoint that cannot be read.
    let name = format!("E5M2_lr{}_s{}", whole["chosen"], whole["seed"]);
    let trials = bench.path("runs/m/.sweep/trials");
    let (judgements, trial) = (trials.with_extension("json"), trials.join(&name));
    let mut judged: Value = serde_json::from_slice(&fs::read(&judgements).unwrap()).unwrap();
    judged.as_object_mut().unwrap().remove(&format!("{name}@8")).unwrap();
    fs::write(&judgements, judged.to_string()).unwrap();
    let status = fs::read_to_string(trial.join("run.json")).unwrap();
    fs::write(trial.join("run.json"), status.replace("\"steps\": 8,", "\"steps\": 4,")).unwrap();
    fs::rename(trial.join("checkpoints"), trials.join("aside")).unwrap();
    fs::create_dir_all(trial.join("checkpoints/step-000004")).unwrap();
    let failed = sweep();
    assert_eq!(failed.code, 1, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains("some runs or trials are not done"), "{}", failed.stderr);
    assert_eq!((&tuned()["broken"], &tuned()["chosen"]), (&true.into(), &Value::Null));
    fs::remove_dir_all(trial.join("checkpoints")).unwrap();
    fs::rename(trials.join("aside"), trial.join("checkpoints")).unwrap();
    assert_eq!(sweep().code, 0);
    assert_eq!(tuned()["chosen"], whole["chosen"]);
}
