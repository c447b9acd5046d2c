//! Faults during a run: disks, plugins, numbers. Its work is kept, and its place reported.

use std::{fs, path::Path, process::Command};

use altgrad_end_to_end::{Bench, Outcome, TINY, assert_same_run, built, plugin, skipped};

/// A checkpoint every third step, and alerts that do not depend on the clock.
fn run_file(rounding: &str) -> String {
    TINY.replace("max_steps = 6", "max_steps = 14").replace("weight = \"E5M2\"", rounding)
        + "\n[checkpoint]\nevery = 3\n[alerts]\ncooldown_s = 0\nnan_cooldown_s = 0\nnan_patience = 4\n\
           [[sink]]\nname = \"csv\"\n"
}

/// A bench whose plugins misbehave as `ALTGRAD_PANIC_IN` requests.
fn with_fixture(run_file: &str) -> Bench {
    let bench = Bench::new();
    for library in ["adamw.so", "csv.so", "e5m2.so"] {
        bench.add_plugin(&plugin(library));
    }
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    bench.write("run.toml", &format!("{run_file}\n[plugins]\ndir = \"plugins\"\ncheck = \"none\"\n"));
    bench
}

fn host(bench: &Bench, args: &[&str], panic_in: &str) -> Outcome {
    bench.host_with(&[&["run", "run.toml", "--quiet"], args].concat(), &[("ALTGRAD_PANIC_IN", panic_in)])
}

fn succeeds(bench: &Bench, args: &[&str]) {
    let outcome = host(bench, args, "");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
}

/// Updates done at the checkpoint a link leads to.
fn step_of(bench: &Bench, checkpoint: &str) -> u64 {
    let text = bench.read(&format!("{checkpoint}/state.toml"));
    text.lines().find_map(|line| line.strip_prefix("step = ")).unwrap().parse().unwrap()
}

#[test]
fn a_format_that_panics_leaves_a_checkpoint_of_the_very_step() {
    let bench = with_fixture(&run_file("weight = \"BAD8\""));
    succeeds(&bench, &["--out", "whole"]);
    for how in ["format.fake_quant@80", "format.fake_quant:error@80"] {
        let out = how.replace([':', '@'], "-");
        let outcome = host(&bench, &["--out", &out], how);
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        let step = step_of(&bench, &format!("{out}/checkpoints/last"));
        let status: serde_json::Value =
            serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
        assert_eq!((status["status"].as_str(), status["steps"].as_u64()), (Some("failed"), Some(step)));
        assert!(step > 3, "{step}");
        let said = format!("{out}/checkpoints/step-{step:06}: `--resume auto` resumes from it");
        assert!(outcome.stderr.contains("format plugin `BAD8`: "), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(&said), "{said}: {}", outcome.stderr);
        succeeds(&bench, &["--out", &out, "--resume"]);
        // The failed part's last words are not part of the run.
        assert_same_run(&bench, "whole", &out);
    }
}

#[test]
fn an_optimizer_that_panics_in_the_middle_of_an_update_costs_what_is_after_the_last_checkpoint() {
    let bench = with_fixture(&run_file("weight = \"E5M2\"").replace("\"adamw\"", "\"bad\""));
    succeeds(&bench, &["--out", "whole"]);
    let outcome = host(&bench, &["--out", "run"], "optimizer.step@70");
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("optimizer plugin `bad`: "), "{}", outcome.stderr);
    let status: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    let (done, last) = (status["steps"].as_u64().unwrap(), step_of(&bench, "run/checkpoints/last"));
    // A checkpoint that is due while another is written is taken at a later step, which depends on the
    // disk.
    assert!(0 < last && last <= done, "{last}, {done}");
    let said =
        format!("run/checkpoints/step-{last:06}: `--resume auto` resumes from it; with `--max-steps {done}`");
    assert!(outcome.stderr.contains(&said), "{said}: {}", outcome.stderr);
    // Up to the update that failed, then past it.
    succeeds(&bench, &["--out", "run", "--resume", "--max-steps", &done.to_string()]);
    assert_eq!(step_of(&bench, "run/checkpoints/last"), done);
    succeeds(&bench, &["--out", "run", "--resume"]);
    assert_same_run(&bench, "whole", "run");
}

#[test]
fn a_resumed_run_whose_sink_does_not_open_keeps_its_files() {
    let bench = with_fixture(&(run_file("weight = \"E5M2\"") + "[[sink]]\nname = \"bad\"\n"));
    succeeds(&bench, &["--out", "run"]);
    let names = ["run.json", "config.toml", "metrics.csv", "weights.safetensors"];
    let files = || names.map(|name| fs::read(bench.path("run").join(name)).unwrap());
    let before = files();
    let outcome =
        host(&bench, &["--out", "run", "--resume", "--set", "train.max_steps=16"], "sink.open:error");
    assert_ne!(outcome.code, 0, "{}", outcome.stderr);
    assert!(files() == before, "the row of the final evaluation as well");
    assert_eq!(step_of(&bench, "run/checkpoints/last"), 14);
}

#[test]
fn a_resumed_run_that_fails_is_evaluated_at_its_last_checkpoint() {
    let bench = with_fixture(&run_file("weight = \"BAD8\""));
    succeeds(&bench, &["--out", "run", "--max-steps", "5"]);
    assert!(bench.path("run/weights.safetensors").is_file());
    let outcome = host(&bench, &["--out", "run", "--resume"], "format.fake_quant@40");
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let last = step_of(&bench, "run/checkpoints/last");
    assert!(last > 5, "{last}");
    assert!(!bench.path("run/weights.safetensors").exists(), "those of step 5");
    let outcome = bench.host(&["evaluate", "run", "--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let evaluation: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(evaluation["step"].as_u64(), Some(last), "{evaluation}");
    assert!(evaluation["weights"].as_str().unwrap().ends_with("model.safetensors"), "{evaluation}");
}

#[test]
fn numbers_that_turn_nan_keep_the_state_before_and_say_where_it_began() {
    // Evaluations round weights and activations too.
    for (role, call) in [("weight", 80), ("activation", 80), ("grad", 40)] {
        let bench = with_fixture(&run_file(&format!("{role} = \"BAD8\"")));
        succeeds(&bench, &["--out", "whole"]);
        let outcome = host(&bench, &["--out", "run"], &format!("format.fake_quant:nan@{call}"));
        assert_eq!(outcome.code, 5, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("NaN or infinite for 4 steps"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("the state before it went wrong is "), "{}", outcome.stderr);
        let names: Vec<String> = fs::read_dir(bench.path("run/checkpoints"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("anomaly-"))
            .collect();
        assert_eq!(names.len(), 1, "{role}: {names:?}");
        let anomaly = format!("run/checkpoints/{}", names[0]);
        let events = bench.read("run/events.jsonl");
        let began = step_of(&bench, &anomaly);
        assert!(events.contains(&format!("it began at step {began} in ")), "{role}: {events}");
        assert!(outcome.stderr.contains(&names[0]), "{}", outcome.stderr);
        assert!(step_of(&bench, "run/checkpoints/last") <= began, "the last good state stays");
        // The anomaly is a good state to look again from, and so is the last.
        succeeds(&bench, &["--out", "again", "--resume", &anomaly]);
        let weights = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
        assert!(weights("whole") == weights("again"), "{role}");
        succeeds(&bench, &["--out", "run", "--resume"]);
        assert_same_run(&bench, "whole", "run");
    }
}

#[test]
fn a_diverging_run_keeps_a_checkpoint_of_the_anomaly() {
    let bench = Bench::new();
    bench.write(
        "run.toml",
        &run_file("weight = \"E5M2\"").replace("[alerts]", "[alerts]\ndivergence_patience = 1"),
    );
    let wild = ["train.eval_interval=1", "train.lr=3.0", "train.min_lr=3.0", "train.warmup_steps=0"];
    let set: Vec<&str> = wild.iter().flat_map(|set| ["--set", set]).collect();
    succeeds(&bench, &[&["--out", "run"], set.as_slice()].concat());
    let anomalies = || {
        let entries = fs::read_dir(bench.path("run/checkpoints")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("anomaly-")).count()
    };
    assert!((1..=3).contains(&anomalies()), "{}", anomalies());
    succeeds(&bench, &[&["--out", "none", "--set", "checkpoint.on_anomaly=false"], set.as_slice()].concat());
    assert!(!bench.read("none/events.jsonl").contains("anomaly"));
}

#[test]
fn a_sink_that_does_not_say_its_state_costs_no_checkpoint() {
    let bench = with_fixture(&run_file("weight = \"E5M2\"").replace("\"csv\"", "\"bad\""));
    let outcome = host(&bench, &["--out", "run"], "sink.state");
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_eq!(step_of(&bench, "run/checkpoints/last"), 14);
    assert!(bench.read("run/events.jsonl").contains("without the state of sink bad: it is closed"));
    // The rows that the sink missed before stay missing.
    let resumed = host(&bench, &["--out", "run", "--resume", "--set", "train.max_steps=16"], "");
    assert!(resumed.code == 1 && resumed.stderr.contains("`bad` is missing"), "{}", resumed.stderr);
    assert_eq!(step_of(&bench, "run/checkpoints/last"), 16);
    let state = bench.read("run/checkpoints/last/state.toml");
    assert!(state.contains("state = \"MS41\""), "{state}");
}

/// A sink that makes a file in place of the folder of checkpoints represents a disk that takes none.
fn mount(args: &[&str], folder: &Path) -> bool {
    let output = Command::new("mount").args(args).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_costs_no_training_and_no_checkpoint_that_was_there() {
    let bench = Bench::new();
    bench.write("run.toml", &run_file("weight = \"E5M2\"").replace("every = 3", "every = 3\nkeep_last = 99"));
    succeeds(&bench, &["--out", "whole"]);
    succeeds(&bench, &["--out", "run", "--max-steps", "1"]);
    let (folder, first) = (bench.path("run/checkpoints"), bench.path("first"));
    let copy = |from: &Path, to: &Path| {
        let done = Command::new("cp").args(["-a", "-T"]).args([from, to]).status();
        assert!(done.unwrap().success());
    };
    copy(&folder, &first);
    if !mount(&["-t", "tmpfs", "-o", "size=128k", "tmpfs"], &folder) {
        skipped(
            "a_full_disk_costs_no_training_and_no_checkpoint_that_was_there",
            "nothing can be mounted here",
        );
        return;
    }
    // Space for the first checkpoint and some more: the run fills it.
    copy(&first, &folder);
    let full = host(&bench, &["--out", "run", "--resume"], "");
    let kept = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    let (metrics, last) = (bench.read("run/metrics.csv"), step_of(&bench, "run/checkpoints/last"));
    let weights = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
    let trained = weights("run");
    let read_only =
        mount(&["-o", "remount,ro"], &folder).then(|| host(&bench, &["--out", "run", "--resume"], ""));
    assert!(mount(&["-o", "remount,rw,size=8m"], &folder));
    let after = host(&bench, &["--out", "run", "--resume"], "");
    let same = altgrad_end_to_end::difference(&bench, "whole", "run");
    assert!(Command::new("umount").arg(&folder).status().unwrap().success());

    assert_eq!(full.code, 1, "{}", full.stderr);
    assert!(full.stderr.contains("No space left on device"), "{}", full.stderr);
    assert!(full.stderr.contains("(checkpoint_failed): the checkpoint step-"), "{}", full.stderr);
    assert!(full.stderr.contains("error: the checkpoint step-000014 cannot be written"), "{}", full.stderr);
    assert!(trained == weights("whole"), "the training is that without the fault");
    assert!(metrics == bench.read("whole/metrics.csv"), "every row is there");
    assert!((3..14).contains(&last), "{last}: {kept:?}");
    let read_only = read_only.unwrap();
    assert_eq!(read_only.code, 1, "{}", read_only.stderr);
    assert!(read_only.stderr.contains("Read-only file system"), "{}", read_only.stderr);
    assert_eq!(after.code, 0, "{}", after.stderr);
    assert_eq!(same, None);
}
