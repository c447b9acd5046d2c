//! The script of the bundle for a GPU's machine, on the CPU: its parts, the limit of a call, and a second call that continues with
//! the results that were carried back.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use altgrad_end_to_end::{Bench, skipped, stage};

/// Stands for a binary of GPU tests: one passes, one fails, one is ignored, one hangs as long as the file `hang` exists.
const TESTS: &str = r#"#!/bin/sh
case "$1 $2" in
"--list --format") printf '%s: test\n' passes fails ignored hangs ;;
"--exact passes") echo "SKIPPED passes: no such device" >&2 ;;
"--exact ignored") echo "test ignored ... ignored, takes minutes" ;;
"--exact fails") echo "1 of 3 kernels differ"; exit 101 ;;
"--exact hangs") while [ -e "$HANG" ]; do sleep 0.05; done ;;
esac
"#;

#[test]
fn a_call_ends_at_its_limit_and_the_next_one_continues() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("a_call_ends_at_its_limit_and_the_next_one_continues", "there is no python3");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bench = Bench::new();
    for (file, name) in [("xtask/gpu-bundle/run.py", "run.py"), ("configs/exp.toml", "exp.toml")] {
        bench.write(&format!("bundle/{name}"), &fs::read_to_string(root.join(file)).unwrap());
    }
    for name in ["altgrad-host", "plugins"] {
        symlink(stage().join(name), bench.path("bundle").join(name)).unwrap();
    }
    for name in ["gpu", "devices"] {
        bench.write(&format!("bundle/tests/{name}"), TESTS);
        let path = bench.path("bundle/tests").join(name);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    bench.write("hang", "");
    fs::create_dir(bench.path("carried")).unwrap();
    let call = |limit: &str, more: &[&str]| {
        let short = ["--device", "cpu", "--steps", "1", "--warmup", "0", "--train-steps", "30"];
        let mut script = Command::new("python3");
        script.arg(bench.path("bundle/run.py")).args(short).args(["--cases", "E5M2", "bf16"]);
        script.args(["--limit", limit]).args(more);
        script.current_dir(bench.path(".")).env("HANG", bench.path("hang")).env("OUT", bench.path("carried"));
        script.env("XDG_STATE_HOME", stage().join("state"));
        script.output().unwrap()
    };
    let results =
        || -> serde_json::Value { serde_json::from_str(&bench.read("carried/results.json")).unwrap() };

    let first = call("5", &[]);
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    assert_ne!(results()["parts"]["test gpu hangs"]["status"], "passed");
    let first_log = bench.read("carried/log.txt");
    fs::remove_file(bench.path("hang")).unwrap();
    // The machine's disk is another one.
    fs::remove_dir_all(bench.path("bundle/results")).unwrap();
    let second = call("570", &["--continue", "carried/results.json"]);
    assert_eq!(second.status.code(), Some(1), "a part failed: {second:?}");
    let results = results();
    let (parts, calls) = (&results["parts"], &results["calls"]);
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    for binary in ["gpu", "devices"] {
        let part = |test: &str| &parts[format!("test {binary} {test}")];
        assert_eq!(part("passes")["status"], "passed");
        assert_eq!(part("passes")["result"]["skipped"][0], "SKIPPED passes: no such device");
        assert_eq!(part("ignored")["result"]["skipped"][0], "test ignored ... ignored, takes minutes");
        assert_eq!(part("fails")["reason"], "exit code 101: 1 of 3 kernels differ");
        assert_eq!(part("hangs")["status"], "passed");
    }
    assert_eq!(parts["train"]["result"]["status"], "completed", "{parts}");
    for part in ["kill and resume", "kill and resume without master weights"] {
        let resumed = &parts[part]["result"]["bit_identical"];
        let files = (&resumed["weights.safetensors"], &resumed["metrics.csv"]);
        assert_eq!(files, (&true.into(), &true.into()), "{parts}");
    }
    for case in ["E5M2", "bf16"] {
        let timed = &parts[format!("bench tiny {case}")]["result"];
        let cases = [0, 1].map(|i| timed["cases"][i]["case"].as_str());
        assert_eq!(cases, [Some("fp32"), Some(case)], "{parts}");
        assert!(timed["machine"]["copy_gb_s"].is_number(), "{parts}");
    }
    let log = first_log + &bench.read("carried/log.txt");
    assert!(log.matches("== test gpu fails\n").count() == 1, "a part that ended is not repeated: {log}");
}
