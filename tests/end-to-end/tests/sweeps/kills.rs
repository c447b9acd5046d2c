//! SIGKILL of sweeps and of their runs at random moments: restarted, a sweep finishes every run exactly once, and each
//! equals the run of an undisturbed sweep. `ALTGRAD_SWEEP_KILLS` sets the number of kills.

#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use altgrad_end_to_end::{Bench, Random, TINY, difference, size};

const MATRIX: &str = "base = \"tiny.toml\"\n[tune]\nseed = 9\nvalues = [0.01, 0.003]\nrungs = [20]\n\
    [set]\ntrain.max_steps = 60\n[axes]\nquant.weight = [\"E5M2\", \"E4M3\"]\nrun.seed = [1, 2]\n";
const RUNS: [&str; 4] = ["E5M2_s1", "E5M2_s2", "E4M3_s1", "E4M3_s2"];

/// Processes that a process started.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |id: u32| {
        // `id (name) state parent ...`; the name may hold anything.
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

fn kill(id: u32) {
    // One that has just ended is as good as killed.
    let _ = Command::new("kill").args(["-KILL", &id.to_string()]).stderr(Stdio::null()).status();
}

/// The status files of finished runs.
fn finished(bench: &Bench, folder: &str) -> BTreeMap<String, String> {
    let status = |run: &str| fs::read_to_string(bench.path(&format!("{folder}/{run}/run.json"))).ok();
    let done = |text: &String| text.contains("\"status\": \"completed\"");
    RUNS.iter().filter_map(|run| Some((run.to_string(), status(run).filter(done)?))).collect()
}

#[test]
#[ignore = "--all: kills processes"]
fn a_sweep_that_is_killed_finishes_every_run_once() {
    let kills = size("ALTGRAD_SWEEP_KILLS", 6);
    let (bench, mut random) = (Bench::new(), Random::of_run());
    let seed = random.seed;
    bench.write("tiny.toml", &format!("{TINY}\n[checkpoint]\nevery = 5\n[[sink]]\nname = \"csv\"\n"));
    let sweep = |name: &str| {
        bench.write(&format!("{name}.toml"), &format!("name = \"{name}\"\n{MATRIX}"));
        let mut command =
            bench.command(&["sweep", &format!("{name}.toml"), "--jobs", "2", "--threads", "1", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let started = Instant::now();
    assert!(sweep("whole").status().unwrap().success());
    let whole = started.elapsed();
    let (mut killed, mut sweeps, mut with_runs, mut left_runs) = (0, 0, 0, 0);
    while killed < kills {
        sweeps += 1;
        let name = format!("killed-{sweeps}");
        let mut known = BTreeMap::new();
        loop {
            let mut process = sweep(&name).spawn().unwrap();
            // Late enough that it comes forward, often enough that most starts are killed.
            let until = Instant::now() + whole.mul_f64(0.1 + random.unit() * 0.6);
            while process.try_wait().unwrap().is_none() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            let ended = process.try_wait().unwrap();
            if ended.is_none() {
                let runs = children(process.id());
                // Their runs die first, last or not at all: those stop by themselves, while the next sweep begins.
                let which = (random.unit() * 3.0) as u32;
                if which == 0 {
                    runs.iter().copied().for_each(kill);
                }
                kill(process.id());
                process.wait().unwrap();
                if which == 1 {
                    runs.iter().copied().for_each(kill);
                }
                killed += 1;
                with_runs += u32::from(which < 2 && !runs.is_empty());
                left_runs += u32::from(which == 2 && !runs.is_empty());
            }
            let done = finished(&bench, &format!("runs/{name}"));
            for (run, status) in &known {
                assert_eq!(done.get(run), Some(status), "seed {seed}: {run} was finished twice");
            }
            known = done;
            if let Some(status) = ended {
                assert!(status.success(), "seed {seed}, after {killed} kills: {status}");
                break;
            }
        }
        assert_eq!(known.len(), RUNS.len());
        for run in RUNS {
            let (whole, other) = (format!("runs/whole/{run}"), format!("runs/{name}/{run}"));
            if let Some(difference) = difference(&bench, &whole, &other) {
                panic!("seed {seed}, {other} after {killed} kills: {difference}");
            }
            let rows = bench.read(&format!("{other}/metrics.csv")).lines().count();
            assert_eq!(rows, 62, "a row a step, and the final evaluation");
        }
        fs::remove_dir_all(bench.path(&format!("runs/{name}"))).unwrap();
    }
    eprintln!(
        "{killed} kills of sweeps ({with_runs} with their runs, {left_runs} leaving runs behind), {sweeps} sweeps: every run \
         finished once and equals that of the sweep nobody killed"
    );
}
