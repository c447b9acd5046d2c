//! Real kills: a process of its own logs and uploads, gets SIGKILL at a random moment, and is started again.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use super::{
    server::{Fault, Server},
    *,
};
use crate::index::Index;

/// The variable with a child's task: run folder, server, first step, step after the last, pause after a step in
/// microseconds.
const TASK: &str = "ALTGRAD_WANDB_TASK";

/// Not a test of its own: the killed process.
#[test]
fn logs_until_killed() {
    let Ok(task) = std::env::var(TASK) else { return };
    let parts: Vec<&str> = task.split('|').collect();
    let number = |index: usize| parts[index].parse::<u64>().unwrap();
    let mut rig = Rig::new(parts[1]);
    rig.run = parts[0].into();
    let from = number(2);
    let resumes = rig.path("wandb/spool.log").exists();
    let mut sink = rig.open(resumes.then_some(from));
    for step in from..number(3) {
        log(&mut sink, step, from as f64);
        log_histogram(&mut sink, step);
        thread::sleep(Duration::from_micros(number(4)));
    }
    sink.finish(RunOutcome::COMPLETED).unwrap();
}

/// The process of a task, which logs these steps.
pub(super) fn task(rig: &Rig, from: u64, to: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::kill::logs_until_killed", "--nocapture"]);
    command.env(TASK, format!("{}|{}|{from}|{to}|300", rig.run.display(), rig.url));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start(rig: &Rig, from: u64, to: u64) -> Child {
    task(rig, from, to).spawn().unwrap()
}

/// Numbers below `below`, those of the seed `ALTGRAD_SEED`: 1 by default.
fn random() -> impl FnMut(u64) -> u64 {
    let seed = std::env::var("ALTGRAD_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("ALTGRAD_SEED={seed}");
    let mut words = [seed, 0, 0, 0].map(|word: u64| word as u32);
    move |below| {
        words[1] = words[1].wrapping_add(1);
        let [random, ..] = altgrad_plugin_api::random::philox(words.map(|word| [word]), [0, 0]);
        u64::from(random[0]) % below
    }
}

/// Steps a killed process has on disk.
fn steps(rig: &Rig) -> u64 {
    let Ok(mut index) = Index::open(&rig.path("wandb/spool.log")) else { return 0 };
    index.read_to(u64::MAX).unwrap();
    index.rows.last().map_or(0, |row| row.step + 1)
}

#[test]
#[ignore = "--all: kills processes"]
fn killed_at_any_moment_and_resumed_each_step_arrives_once() {
    const STEPS: u64 = 1500;
    let mut random = random();
    for _ in 0..3 {
        let server = Server::start();
        let rig = Rig::new(&server.url);
        let (mut from, mut kills, mut is_complete) = (0, 0, false);
        for round in 0..12 {
            let fault = if round % 2 == 0 { Fault::DropAfter } else { Fault::Slow };
            server.fault("fs", fault, 1);
            let mut child = start(&rig, from, STEPS);
            thread::sleep(Duration::from_millis(20 + random(180)));
            // Without a row there is no checkpoint, and the next process would begin another run.
            while steps(&rig) == 0 && child.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_millis(5));
            }
            let ended = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            if ended {
                // Its spool is deleted.
                is_complete = true;
                break;
            }
            kills += 1;
            // The checkpoint is some steps old, at most as old as the run.
            let done = steps(&rig);
            from = done.saturating_sub(random(120)).max(1);
        }
        assert!(kills > 0);
        assert!(is_complete || start(&rig, from, STEPS).wait().unwrap().success());
        println!("{kills} kills, resumed last at step {from}");
        assert_rows(&parsed(&server.run().history), STEPS);
        assert_eq!(server.run().exits.last(), Some(&0));
    }
}
