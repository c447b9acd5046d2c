//! SIGKILL at random moments, also while checkpoints are written: a resumed run ends with the same results as the
//! uninterrupted run.

#![cfg(unix)]

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use altgrad_end_to_end::{Bench, Random, TINY, difference, wait};

/// A checkpoint every other step, so that most moments are moments of writing.
const OFTEN: &str = "\n[checkpoint]\nevery = 2\n[metrics]\nhistograms_every = 7\ndead_neuron_window = 5\n\
    [alerts]\npatience = 2\ncooldown_s = 0\nnan_cooldown_s = 0\n[[sink]]\nname = \"csv\"\n";

/// Kills runs until `kills` were killed; each ends as if it had not been.
fn survive(kills: u32) {
    let (bench, mut random) = (Bench::new(), Random::of_run());
    let seed = random.seed;
    let rounding = "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"\nrounding = \"stochastic\"\n\
        master_weights = \"none\"\nscaling = { amax = \"delayed\", window = 4 }";
    let file = TINY.replace("max_steps = 6", "max_steps = 60").replace("weight = \"E5M2\"", rounding);
    bench.write("run.toml", &(file + OFTEN));
    let started = Instant::now();
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "whole"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut whole = started.elapsed();
    let (mut killed, mut runs, mut resumed, mut most_lost) = (0, 0, 0, 0);
    while killed < kills {
        runs += 1;
        let out = format!("run-{runs}");
        let (mut kept, mut in_vain) = (0, 0);
        loop {
            let mut child =
                bench.command(&["run", "run.toml", "--quiet", "--resume", "--out", &out]).spawn().unwrap();
            match ended_within(&mut child, whole.mul_f64(random.unit() * 1.1)) {
                Some(status) => {
                    assert!(status.success(), "seed {seed}, run {runs}, {killed} kills: {status}");
                    break;
                }
                None => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    wait_for_the_lock(&bench.path(&out));
                    killed += 1;
                    let before = kept;
                    kept = kept_steps(&bench, &out);
                    in_vain = if kept > before { 0 } else { in_vain + 1 };
                    // The machine is slower than when the time was measured.
                    if in_vain == 10 {
                        (whole, in_vain) = (2 * whole, 0);
                    }
                    let lost = done_steps(&bench, &out).saturating_sub(kept);
                    most_lost = most_lost.max(lost);
                    assert!(lost <= 2, "seed {seed}, run {runs}: kill {killed} lost {lost} steps");
                    resumed += u32::from(bench.path(&out).join("checkpoints/last").exists());
                }
            }
        }
        if let Some(difference) = difference(&bench, "whole", &out) {
            panic!("seed {seed}, run {runs}, after {killed} kills: {difference}");
        }
        let status: serde_json::Value =
            serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
        let sink = &status["sinks"][0];
        assert_eq!((&sink["rows"], &sink["missing_rows"]), (&61.into(), &0.into()), "{sink}");
        fs::remove_dir_all(bench.path(&out)).unwrap();
    }
    eprintln!(
        "| SIGKILLs | after a checkpoint | runs | most steps lost by one, of 2 | rows lost | runs that differ |"
    );
    eprintln!("|---|---|---|---|---|---|");
    eprintln!("| {killed} | {resumed} | {runs} | {most_lost} | 0 | 0 |");
    assert!(resumed > 0, "nothing was ever resumed");
}

/// Waits for the end of a process, at most so long.
fn ended_within(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + time;
    loop {
        let ended = child.try_wait().unwrap();
        if ended.is_some() || Instant::now() >= until {
            return ended;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// A process that the killed one had started may hold the folder for a moment more.
fn wait_for_the_lock(folder: &Path) {
    wait(|| File::open(folder.join(".lock")).map_or(true, |lock| lock.try_lock().is_ok()));
}

/// Steps of a killed run that have a row. Those after its newest checkpoint are to be done again.
fn done_steps(bench: &Bench, run: &str) -> u64 {
    let rows = read(bench, run, "metrics.csv");
    // The last line may be cut short.
    let whole = rows.rfind('\n').map_or("", |end| &rows[..end]);
    let row = whole.lines().skip(1).last().and_then(|row| row.split(',').next()?.parse::<u64>().ok());
    row.map_or(0, |step| step + 1)
}

/// Steps of its newest checkpoint.
fn kept_steps(bench: &Bench, run: &str) -> u64 {
    let state = read(bench, run, "checkpoints/last/state.toml");
    state.lines().find_map(|line| line.strip_prefix("step = ")).map_or(0, |step| step.parse().unwrap())
}

/// A file of a killed run, empty if it has none.
fn read(bench: &Bench, run: &str, file: &str) -> String {
    fs::read_to_string(bench.path(run).join(file)).unwrap_or_default()
}

#[test]
#[ignore = "--all: kills processes"]
fn runs_that_are_killed_end_where_the_uninterrupted_one_does() {
    survive(8);
}

#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_hundred_kills() {
    survive(100);
}
