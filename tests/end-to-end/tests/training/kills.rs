//! SIGKILL at random moments, checkpoint writing included: whoever goes on ends where the uninterrupted run does.

#![cfg(unix)]

use std::{
    thread,
    time::{Duration, Instant},
};

use altgrad_end_to_end::{Bench, Moments, TINY, difference};

/// A checkpoint every other step, so that most moments are moments of writing.
const OFTEN: &str = "\n[checkpoint]\nevery = 2\n[metrics]\nhistograms_every = 7\ndead_neuron_window = 5\n\
    [alerts]\npatience = 2\ncooldown_s = 0\nnan_cooldown_s = 0\n[[sink]]\nname = \"csv\"\n";

/// Kills runs until `kills` were killed; each ends as if it had not been.
fn survive(kills: u32) {
    let (bench, mut moments) = (Bench::new(), Moments::new());
    let seed = moments.seed;
    let rounding = "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"\nrounding = \"stochastic\"\n\
        master_weights = \"none\"\nscaling = { amax = \"delayed\", window = 4 }";
    let file = TINY.replace("max_steps = 6", "max_steps = 60").replace("weight = \"E5M2\"", rounding);
    bench.write("run.toml", &(file + OFTEN));
    let started = Instant::now();
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "whole"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let whole = started.elapsed();
    let (mut killed, mut runs, mut resumed) = (0, 0, 0);
    while killed < kills {
        runs += 1;
        let out = format!("run-{runs}");
        loop {
            let mut child =
                bench.command(&["run", "run.toml", "--quiet", "--resume", "--out", &out]).spawn().unwrap();
            let until = Instant::now() + whole.mul_f64(moments.next() * 1.1);
            let ended = loop {
                let ended = child.try_wait().unwrap();
                if ended.is_some() || Instant::now() >= until {
                    break ended;
                }
                thread::sleep(Duration::from_micros(200));
            };
            match ended {
                Some(status) => {
                    assert!(status.success(), "seed {seed}, run {runs}, {killed} kills: {status}");
                    break;
                }
                None => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed += 1;
                    resumed += u32::from(bench.path(&out).join("checkpoints/last").exists());
                }
            }
        }
        if let Some(difference) = difference(&bench, "whole", &out) {
            panic!("seed {seed}, run {runs}, after {killed} kills: {difference}");
        }
        std::fs::remove_dir_all(bench.path(&out)).unwrap();
    }
    eprintln!(
        "{killed} kills, {resumed} of them after a checkpoint, {runs} runs: all equal the uninterrupted one"
    );
    assert!(resumed > 0, "nothing was ever resumed");
}

#[test]
fn runs_that_are_killed_end_where_the_uninterrupted_one_does() {
    survive(8);
}

#[test]
#[ignore = "minutes: CONTRIBUTING.md has the command"]
fn a_hundred_kills() {
    survive(100);
}
