//! Faults of a run's files while it runs: limits, full disks, folders that others rename or delete.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use altgrad_end_to_end::{Bench, TINY, skipped, started_by, wait};
use serde_json::Value;

use super::processes::{children, endless, send};

fn status(bench: &Bench, run: &str) -> Value {
    serde_json::from_str(&bench.read(&format!("{run}/run.json"))).unwrap()
}

#[test]
#[ignore = "--all: full and slow disks"]
fn a_write_beyond_the_largest_size_of_files_is_an_error_like_others() {
    let test = "a_write_beyond_the_largest_size_of_files_is_an_error_like_others";
    let limit = |process: u32| {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &process.to_string(), "--fsize=2000:2000"]).stderr(Stdio::null());
        prlimit.status().is_ok_and(|status| status.success())
    };
    let (bench, mut child) = endless(&[]);
    if !limit(children(child.id())[0]) {
        child.kill().unwrap();
        child.wait().unwrap();
        return skipped(test, "prlimit cannot be used");
    }
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", bench.read("stderr"));
    assert!(bench.read("stderr").contains("File too large"), "{}", bench.read("stderr"));
    // The room for it was set aside before.
    assert_eq!(status(&bench, "run")["status"], "failed");
}

#[test]
#[ignore = "--all: full and slow disks"]
fn the_last_status_has_room_on_a_full_disk() {
    const SCRIPT: &str = "mount -t tmpfs -o size=2m none disk || exit 77
        \"$0\" run run.toml --quiet --out disk/run --set train.max_steps=100000000 2>stderr &
        run=$!
        until grep -q 'best_val_step\": 2' disk/run/run.json 2>/dev/null; do kill -0 $run || exit 1; sleep 0.02; done
        ls -A disk/run >before
        cat /dev/zero >disk/fill 2>/dev/null
        # What a checkpoint that fails gives back is taken, too.
        while true; do cat /dev/zero >>disk/fill; done 2>/dev/null &
        kill -TERM $run
        wait $run
        echo $? >code
        kill $!
        cp disk/run/run.json status.json
        ls -A disk/run >after";
    let test = "the_last_status_has_room_on_a_full_disk";
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    fs::create_dir(bench.path("disk")).unwrap();
    let unshare = |starter: &[&str]| {
        let mut command = started_by(starter, &bench.command(&[]));
        command.stderr(Stdio::null()).status()
    };
    match unshare(&["unshare", "-Urm", "true"]) {
        Ok(status) if status.success() => {}
        other => return skipped(test, &format!("`unshare -Urm` is not allowed ({other:?})")),
    }
    let status = unshare(&["unshare", "-Urm", "sh", "-c", SCRIPT]).unwrap();
    if status.code() == Some(77) {
        return skipped(test, "no disk can be mounted");
    }
    assert!(status.success(), "{status}: {}", bench.read("stderr"));
    assert_eq!(bench.read("code").trim(), "1", "{}", bench.read("stderr"));
    assert!(bench.read("stderr").contains("No space left"), "{}", bench.read("stderr"));
    let status: Value = serde_json::from_str(&bench.read("status.json")).unwrap();
    assert_eq!(status["status"], "failed");
    assert!(bench.read("before").contains(".altgrad-reserve"));
    assert!(!bench.read("after").contains(".altgrad-"), "{}", bench.read("after"));
}

#[test]
#[ignore = "--all: full and slow disks"]
fn a_renamed_run_folder_ends_the_run_with_all_that_it_had() {
    let (bench, mut child) = endless(&[]);
    fs::rename(bench.path("run"), bench.path("other")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = bench.read("stderr");
    assert_eq!(said.matches("the run folder was renamed during the run: it is ").count(), 1, "{said}");
    assert!(!bench.path("run").exists(), "the old one does not come back");
    let status = status(&bench, "other");
    assert_eq!(status["status"], "failed");
    let step = status["steps"].as_u64().unwrap();
    let state = bench.read("other/checkpoints/last/state.toml");
    assert!(state.contains(&format!("\nstep = {step}\n")), "{step}: {state}");
    let more = format!("train.max_steps={}", step + 2);
    let resumed = bench.host(&["run", "run.toml", "--quiet", "--out", "other", "--resume", "--set", &more]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
}

#[test]
#[ignore = "--all: full and slow disks"]
fn a_deleted_run_folder_ends_the_run_and_does_not_come_back() {
    let (bench, mut child) = endless(&[]);
    // A file that is made meanwhile can be in the way.
    wait(|| fs::remove_dir_all(bench.path("run")).is_ok() || !bench.path("run").exists());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = bench.read("stderr");
    assert_eq!(said.matches("the run folder was deleted during the run").count(), 1, "{said}");
    assert!(said.contains("its files are lost"), "{said}");
    thread::sleep(Duration::from_millis(20));
    assert!(!bench.path("run").exists());
}

#[test]
#[ignore = "--all: full and slow disks"]
fn temporary_files_of_a_killed_process_are_removed_when_the_run_goes_on() {
    let (bench, mut child) = endless(&[]);
    child.kill().unwrap();
    child.wait().unwrap();
    bench.write("run/.altgrad-a1b2c3", "half a file");
    let args = ["run", "run.toml", "--quiet", "--out", "run", "--resume", "--set", "train.max_steps=4"];
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut names = fs::read_dir(bench.path("run")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().starts_with(".altgrad-")));
}
