//! Signals to a run: those that end it, those that do not, and the processes that end with it.

use std::{fs, process::Stdio, thread, time::Duration};

use altgrad_end_to_end::{Bench, TINY, compile_c, skipped, wait};

use super::{
    culprits,
    processes::{children, endless, endless_by, runs, send},
};

#[test]
fn a_run_whose_training_process_is_killed_says_so() {
    let bench = Bench::new();
    bench.write("run.toml", &format!("{TINY}\n[checkpoint]\nevery = 0\n[[sink]]\nname = \"csv\"\n"));
    let set = ["train.max_steps=100000000", "train.eval_interval=1000000000"];
    let set = set.iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["run", "run.toml", "--quiet", "--out", "run"].into_iter().chain(set).collect();
    let stderr = fs::File::create(bench.path("stderr")).unwrap();
    let mut child = bench.command(&args).stderr(stderr).spawn().unwrap();
    let rows = || {
        fs::read_to_string(bench.path("run/metrics.csv"))
            .map_or(0, |text| text.lines().count().saturating_sub(1))
    };
    wait(|| rows() > 50);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    send("-KILL", training);
    assert_eq!(child.wait().unwrap().code(), Some(137));
    // No evaluation has written these values.
    let record: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    let (steps, loss) = (record["steps"].as_u64().unwrap(), record["final_train_loss"].as_f64().unwrap());
    assert!(steps + 1 >= rows() as u64 && loss > 0.0, "{steps} steps, {} rows, loss {loss}", rows());
    // 16 tokens a step.
    assert_eq!(record["tokens"], 16 * steps);
    let said = bench.read("stderr");
    assert!(said.contains("error: the process was ended by SIGKILL (perhaps for its memory)"), "{said}");
    assert!(bench.read("run/run.json").contains("\"status\": \"failed\""));
}

#[test]
fn who_kills_the_supervising_process_kills_the_training_at_once() {
    let (bench, mut child) = endless(&[]);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    child.kill().unwrap();
    child.wait().unwrap();
    // Its lock is released in time.
    let resumed =
        bench.host(&["run", "run.toml", "--quiet", "--out", "run", "--resume", "--set", "train.max_steps=4"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(!runs(training));
}

#[test]
fn a_signal_to_both_processes_counts_once_and_so_do_its_repetitions() {
    let (bench, mut child) = endless(&[]);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    for process in [training, child.id()] {
        send("-TERM", process);
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(bench.path("run/weights.safetensors").is_file(), "it ended cleanly");
    assert!(bench.read("run/run.json").contains("\"status\": \"interrupted\""));
    assert_eq!(bench.read("stderr").matches("interrupted: finishing").count(), 1);

    // All come while nothing runs, so that the last one finds the first step unfinished.
    let (bench, mut child) = endless(&[]);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    for (signal, process) in [
        ("-STOP", training),
        ("-TERM", child.id()),
        ("-TERM", training),
        ("-INT", training),
        ("-CONT", training),
    ] {
        send(signal, process);
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(bench.path("run/weights.safetensors").is_file(), "{}", bench.read("stderr"));
}

/// The first signal cannot end the run: a plugin call does not return.
#[test]
fn a_later_second_signal_ends_the_run_at_once() {
    let bench = match culprits::in_c() {
        Ok(bench) => bench,
        Err(why) => return skipped("a_later_second_signal_ends_the_run_at_once", &why),
    };
    let args = ["run", "run.toml", "--quiet", "--out", "run", "--set", "limits.plugin_call_warning_s=0.2"];
    let mut command = bench.command(&args);
    command.env("ALTGRAD_MISBEHAVE", "hang@1000").stderr(fs::File::create(bench.path("stderr")).unwrap());
    let mut child = command.spawn().unwrap();
    wait(|| bench.read("stderr").contains("has not returned"));
    send("-TERM", child.id());
    thread::sleep(Duration::from_millis(500));
    send("-TERM", child.id());
    thread::sleep(Duration::from_millis(1000));
    assert!(child.try_wait().unwrap().is_none(), "{}", bench.read("stderr"));
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", bench.read("stderr"));
    let status = bench.read("run/run.json");
    assert!(status.contains("the user stopped the run at once"), "{status}");
}

/// A library whose destructor adds the process's number to the file `ended`.
const DESTRUCTOR: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>
static void __attribute__((destructor)) end(void) {
    FILE *file = fopen("ended", "a");
    if (file) fprintf(file, "%ld\n", (long)getpid()), fclose(file);
}
"#;

/// Threads still work when a signal ends a benchmark: the compiler of a GPU's kernels crashes if its destructors run
/// then.
#[test]
fn a_benchmark_that_a_signal_ends_runs_no_destructors() {
    let bench = Bench::new();
    bench.write("end.c", DESTRUCTOR);
    if let Err(why) = compile_c(&bench.path("end.c"), &bench.path("end.so")) {
        return skipped("a_benchmark_that_a_signal_ends_runs_no_destructors", &why);
    }
    fs::create_dir(bench.path("temporary")).unwrap();
    let start = |args: &[&str]| {
        let mut command = bench.command(args);
        command.env("LD_PRELOAD", bench.path("end.so")).env("TMPDIR", bench.path("temporary"));
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut child = start(&["bench", "--device", "cpu", "--case", "fp32", "--steps", "100000000"]);
    // Its tokens are there once it listens to signals.
    wait(|| fs::read_dir(bench.path("temporary")).unwrap().next().is_some());
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut ordinary = start(&["formats", "list"]);
    assert_eq!(ordinary.wait().unwrap().code(), Some(0));
    let ended = bench.read("ended");
    let ran = |child: u32| ended.lines().any(|line| line == child.to_string());
    assert!(ran(ordinary.id()) && !ran(child.id()), "{}: {ended}", child.id());
    assert!(fs::read_dir(bench.path("temporary")).unwrap().next().is_none(), "temporary files are removed");
}

#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let (bench, mut child) = endless_by(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"], &[]);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    for process in [child.id(), training] {
        send("-HUP", process);
    }
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "{}", bench.read("stderr"));
    assert!(!bench.read("stderr").contains("interrupted"), "{}", bench.read("stderr"));
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A service manager sends SIGKILL some time after SIGTERM: by then the steps are safe, however long the last
/// evaluation takes.
#[test]
fn a_run_that_is_asked_to_end_writes_its_checkpoint_before_it_evaluates() {
    let bench = Bench::new();
    bench.write("run.toml", &format!("{TINY}\n[checkpoint]\nevery = 0\n[[sink]]\nname = \"csv\"\n"));
    let set = ["train.max_steps=100000000", "train.eval_interval=0", "train.eval_batches=100000000"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let args = [&["run", "run.toml", "--quiet", "--out", "run"], set.as_slice()].concat();
    let mut child = bench.command(&args).spawn().unwrap();
    let rows = || fs::read_to_string(bench.path("run/metrics.csv")).map_or(0, |text| text.lines().count());
    wait(|| rows() > 20);
    send("-TERM", child.id());
    wait(|| bench.path("run/checkpoints/last").exists());
    assert!(child.try_wait().unwrap().is_none(), "it evaluates");
    child.kill().unwrap();
    child.wait().unwrap();
    let state = bench.read("run/checkpoints/last/state.toml");
    assert!(state.contains(&format!("\nstep = {}\n", rows() - 1)), "{} rows: {state}", rows() - 1);
}

#[test]
fn sigusr1_writes_a_checkpoint_and_training_goes_on() {
    let (bench, mut child) = endless(&[]);
    assert!(!bench.path("run/checkpoints/last").exists());
    send("-USR1", child.id());
    wait(|| bench.path("run/checkpoints/last").exists());
    thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "{}", bench.read("stderr"));
    assert!(bench.read("stderr").contains("SIGUSR1: a checkpoint follows this step"));
    let first = fs::canonicalize(bench.path("run/checkpoints/last")).unwrap();
    send("-USR1", child.id());
    wait(|| fs::canonicalize(bench.path("run/checkpoints/last")).is_ok_and(|last| last != first));
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn time_in_which_a_run_is_stopped_is_no_time_in_a_call() {
    let limits = ["--set", "limits.plugin_call_warning_s=1", "--set", "limits.plugin_call_timeout_s=1.5"];
    let (bench, mut child) = endless(&limits);
    let [training] = children(child.id())[..] else { panic!("one process trains") };
    // Most of the time it is in a call.
    for _ in 0..3 {
        send("-STOP", training);
        thread::sleep(Duration::from_millis(2000));
        send("-CONT", training);
        thread::sleep(Duration::from_millis(50));
    }
    assert!(child.try_wait().unwrap().is_none(), "{}", bench.read("stderr"));
    assert!(!bench.read("stderr").contains("warning"), "{}", bench.read("stderr"));
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A run that cannot end by itself, because a plugin call does not return.
#[test]
fn a_sweep_that_is_killed_leaves_no_process_that_hangs() {
    let bench = match culprits::in_c() {
        Ok(bench) => bench,
        Err(why) => return skipped("a_sweep_that_is_killed_leaves_no_process_that_hangs", &why),
    };
    let set = "[set]\nlimits.plugin_call_warning_s = 0.2\n";
    bench.write("m.toml", &format!("base = \"run.toml\"\nname = \"m\"\n{set}[axes]\nrun.seed = [1]\n"));
    let mut sweep = bench.command(&["sweep", "m.toml", "--threads", "1", "--quiet"]);
    sweep.env("ALTGRAD_MISBEHAVE", "hang@1000").stdout(Stdio::null()).stderr(Stdio::null());
    let mut sweep = sweep.spawn().unwrap();
    let events = bench.path("runs/m/s1/events.jsonl");
    wait(|| fs::read_to_string(&events).is_ok_and(|events| events.contains("\"kind\":\"plugin_call\"")));
    let supervising = children(sweep.id());
    let training: Vec<u32> = supervising.iter().flat_map(|process| children(*process)).collect();
    assert_eq!(training.len(), 1);
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    wait(|| !supervising.iter().chain(&training).any(|process| runs(*process)));
    let status = bench.read("runs/m/s1/run.json");
    assert!(status.contains("the program that started the run is gone"), "{status}");
}

#[test]
fn a_sweep_that_is_killed_leaves_no_process() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let matrix =
        "base = \"tiny.toml\"\nname = \"m\"\n[set]\ntrain.max_steps = 100000000\n[axes]\nrun.seed = [1, 2]\n";
    bench.write("m.toml", matrix);
    let args = ["sweep", "m.toml", "--jobs", "2", "--threads", "1", "--quiet"];
    let mut sweep = bench.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = |run: &str| bench.path(&format!("runs/m/{run}/run.json")).is_file();
    wait(|| children(sweep.id()).len() == 2 && ["s1", "s2"].iter().all(|run| begun(run)));
    let supervising = children(sweep.id());
    let training: Vec<u32> = supervising.iter().flat_map(|process| children(*process)).collect();
    assert_eq!(training.len(), 2);
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    wait(|| !supervising.iter().chain(&training).any(|process| runs(*process)));
}
