//! The script of the bundle for a GPU's machine, on the CPU: its parts, their limits, a second call that continues with the results that
//! were carried back, the files of CUDA that it finds, and a machine without the device.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Output},
};

use altgrad_end_to_end::{Bench, compile_c, root, skipped, stage};
use serde_json::Value;

/// Stands for a binary of GPU tests, a few of which fail; one hangs as long as the file `hang` exists, one for ever.
const TESTS: &str = r#"#!/bin/sh
case "$1 $2" in
"--list --format") printf '%s: test\n' passes elsewhere lacks ignored fails hangs stuck ;;
"--exact passes") echo '{"check": "rounding", "differing": 0}' >&2 ;;
"--exact elsewhere") echo 'SKIPPED elsewhere: device `wgpu` is not available' >&2 ;;
"--exact lacks") echo "SKIPPED lacks: there is no compiler" >&2 ;;
"--exact ignored") echo "test ignored ... ignored, takes minutes" ;;
"--exact fails") head -c 200000 /dev/zero | tr '\0' . ; echo "1 of 3 kernels differ"; exit 101 ;;
"--exact hangs") while [ -e "$HANG" ]; do sleep 0.05; done ;;
"--exact stuck") sleep 1000 ;;
esac
"#;

/// A C function that says that it is of CUDA 13.0.
const NVRTC: &str = "int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }\n";

/// An unpacked bundle with the staged host.
fn unpacked() -> Bench {
    let bench = Bench::new();
    let scripts = ["run.py", "parts.py", "processes.py", "machine.py"];
    let files = scripts.map(|name| format!("xtask/gpu-bundle/{name}")).into_iter();
    for file in files.chain(["configs/exp.toml".into()]) {
        let name = file.rsplit('/').next().unwrap();
        bench.write(&format!("bundle/{name}"), &fs::read_to_string(root().join(&file)).unwrap());
    }
    for name in ["altgrad-host", "plugins"] {
        symlink(stage().join(name), bench.path("bundle").join(name)).unwrap();
    }
    for name in ["gpu", "devices"] {
        bench.write(&format!("bundle/tests/{name}"), TESTS);
        fs::set_permissions(bench.path("bundle/tests").join(name), fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    bench.write("bundle/build.json", r#"{"commit": "0123", "dirty": true}"#);
    bench.write("hang", "");
    fs::create_dir(bench.path("carried")).unwrap();
    bench
}

fn call(bench: &Bench, device: &str, more: &[&str]) -> Output {
    let short = [
        "--sizes",
        "tiny",
        "--cases",
        "fp32",
        "E5M2",
        "--steps",
        "1",
        "--warmup",
        "0",
        "--train-steps",
        "30",
    ];
    let mut script = Command::new("python3");
    script.arg(bench.path("bundle/run.py")).args(["--device", device]).args(short).args(more);
    script.current_dir(bench.path(".")).env("HANG", bench.path("hang")).env("OUT", bench.path("carried"));
    script.env("XDG_STATE_HOME", stage().join("state")).env("CUDA_PATH", bench.path("toolkit"));
    script.env_remove("LD_LIBRARY_PATH");
    script.output().unwrap()
}

fn results(bench: &Bench) -> Value {
    serde_json::from_str(&bench.read("carried/results.json")).unwrap()
}

fn has_no_python(test: &str) -> bool {
    let is_missing = Command::new("python3").arg("--version").output().is_err();
    if is_missing {
        skipped(test, "there is no python3");
    }
    is_missing
}

#[test]
fn a_call_ends_at_its_limit_and_the_next_one_continues() {
    if has_no_python("a_call_ends_at_its_limit_and_the_next_one_continues") {
        return;
    }
    let bench = unpacked();
    let first = call(&bench, "cpu", &["--limit", "10"]);
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    assert_ne!(results(&bench)["parts"]["test gpu hangs"]["status"], "passed");
    let first_log = bench.read("carried/log.txt");
    fs::remove_file(bench.path("hang")).unwrap();
    // The machine's disk is another one.
    fs::remove_dir_all(bench.path("bundle/results")).unwrap();
    let more = ["--limit", "570", "--test-limit", "10", "--continue", "carried/results.json"];
    let second = call(&bench, "cpu", &more);
    assert_eq!(second.status.code(), Some(1), "a part failed: {second:?}");
    let results = results(&bench);
    let (parts, calls) = (&results["parts"], &results["calls"]);
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    assert_eq!(calls[0]["build"]["commit"], "0123");
    for binary in ["gpu", "devices"] {
        let part = |test: &str| &parts[format!("test {binary} {test}")];
        let status = |test: &str| part(test)["status"].as_str().unwrap().to_string();
        assert_eq!(part("passes")["result"]["figures"][0]["differing"], 0, "{parts}");
        for test in ["passes", "elsewhere", "hangs"] {
            assert_eq!(status(test), "passed", "{test}: {parts}");
        }
        assert_eq!((status("lacks"), status("ignored")), ("skipped".into(), "skipped".into()));
        assert_eq!(part("lacks")["reason"], "SKIPPED lacks: there is no compiler");
        let reason = part("fails")["reason"].as_str().unwrap();
        assert!(reason.starts_with("exit code 101: ..") && reason.ends_with("1 of 3 kernels differ"));
        assert_eq!(
            (status("stuck"), &part("stuck")["reason"]),
            ("failed".into(), &"not ended after 10.0 s".into())
        );
    }
    for part in ["kill and resume", "kill and resume without master weights"] {
        let result = &parts[part]["result"];
        let resumed = &result["bit_identical"];
        let files = (&resumed["weights.safetensors"], &resumed["metrics.csv"]);
        assert_eq!(files, (&true.into(), &true.into()), "{parts}");
        assert_eq!(result["run"]["status"], "completed", "{parts}");
    }
    let timed = &parts["bench tiny"]["result"];
    let cases = [0, 1].map(|i| timed["cases"][i]["case"].as_str());
    assert_eq!(cases, [Some("fp32"), Some("E5M2")], "{parts}");
    assert!(timed["machine"]["copy_gb_s"].is_number(), "{parts}");
    let log = first_log + &bench.read("carried/log.txt");
    assert!(
        log.matches("== test gpu fails: failed\n").count() == 1,
        "a part that ended is not repeated: {log}"
    );
}

/// Without the device nothing else is tried. The script has found the files of CUDA by then.
#[test]
fn a_machine_without_the_device_fails_at_once() {
    const TEST: &str = "a_machine_without_the_device_fails_at_once";
    if has_no_python(TEST) {
        return;
    }
    let bench = unpacked();
    bench.write("nvrtc.c", NVRTC);
    for header in ["cuda_bf16.h", "mma.h", "crt/mma.h"] {
        bench.write(&format!("toolkit/include/{header}"), "");
    }
    bench.write("toolkit/include/cuda.h", "#define CUDA_VERSION 13000\n");
    fs::create_dir(bench.path("toolkit/lib64")).unwrap();
    let library = bench.path("toolkit/lib64/libnvrtc.so.13");
    if let Err(why) = compile_c(&bench.path("nvrtc.c"), &library) {
        return skipped(TEST, &why);
    }
    let outcome = call(&bench, "cuda:9", &[]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(said.contains("error: the device does not work: exit code 4: error: device `cuda:9`"), "{said}");
    let results = results(&bench);
    let parts: Vec<&String> = results["parts"].as_object().unwrap().keys().collect();
    assert_eq!(parts, ["device"]);
    let cuda = &results["calls"][0];
    let library = fs::canonicalize(library).unwrap();
    assert_eq!(cuda["nvrtc"].as_str(), library.to_str());
    let thirteen: Value = [13, 0].into_iter().collect();
    assert_eq!((&cuda["nvrtc_version"], &cuda["headers_version"]), (&thirteen, &thirteen));
    assert_eq!(cuda["CUDA_PATH"].as_str(), bench.path("toolkit").to_str());
    // The name that the host tries first leads to the library.
    let link = bench.path("bundle/results/nvrtc/libnvrtc.so");
    assert_eq!(fs::canonicalize(link).unwrap(), library);
}
