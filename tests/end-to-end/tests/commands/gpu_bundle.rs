//! The script of the bundle for a GPU's machine, on the CPU: its parts, the limit of a call, and a second call that continues.

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
    for name in ["gpu", "linear", "counts", "histograms"] {
        bench.write(&format!("bundle/tests/{name}"), TESTS);
        let path = bench.path("bundle/tests").join(name);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    bench.write("hang", "");
    let call = |limit: &str| {
        let short =
            ["--device", "cpu", "--sizes", "tiny", "--steps", "1", "--warmup", "0", "--train-steps", "30"];
        let mut script = Command::new("python3");
        script.arg(bench.path("bundle/run.py")).args(short).args(["--limit", limit, "--out", "out"]);
        script.current_dir(bench.path(".")).env("HANG", bench.path("hang"));
        script.env("XDG_STATE_HOME", stage().join("state"));
        script.output().unwrap()
    };
    let results = || -> serde_json::Value { serde_json::from_str(&bench.read("out/results.json")).unwrap() };

    let first = call("5");
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    assert_ne!(results()["parts"]["test gpu hangs"]["status"], "passed");
    fs::remove_file(bench.path("hang")).unwrap();
    let second = call("570");
    assert_eq!(second.status.code(), Some(1), "a part failed: {second:?}");
    let (parts, calls) = (&results()["parts"], &results()["calls"]);
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    for binary in ["gpu", "linear", "counts", "histograms"] {
        let part = |test: &str| &parts[format!("test {binary} {test}")];
        assert_eq!(part("passes")["status"], "passed");
        assert_eq!(part("passes")["result"]["skipped"][0], "SKIPPED passes: no such device");
        assert_eq!(part("ignored")["result"]["skipped"][0], "test ignored ... ignored, takes minutes");
        assert_eq!(part("fails")["reason"], "exit code 101: 1 of 3 kernels differ");
        assert_eq!(part("hangs")["status"], "passed");
    }
    assert_eq!(parts["train"]["result"]["status"], "completed", "{parts}");
    let resumed = &parts["kill and resume"]["result"]["bit_identical"];
    assert_eq!(
        (&resumed["weights.safetensors"], &resumed["metrics.csv"]),
        (&true.into(), &true.into()),
        "{parts}"
    );
    assert!(parts["bench tiny"]["result"]["machine"]["copy_gb_s"].is_number(), "{parts}");
    let log = bench.read("out/log.txt");
    assert!(log.matches("== test gpu fails\n").count() == 1, "a part that ended is not repeated: {log}");
}
