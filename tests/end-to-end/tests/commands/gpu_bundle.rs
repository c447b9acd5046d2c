//! The script of the bundle for a GPU's machine, on the CPU: its parts, their order and limits, a second call that
//! continues with the results that were carried back, the files of CUDA that it finds, and a machine without the
//! device.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Command, Output},
};

use altgrad_end_to_end::{Bench, compile_c, compile_c_with, root, skipped, stage};
use serde_json::Value;

/// Stands for a binary of GPU tests, a few of which fail; one hangs as long as the file `hang` exists, one for ever.
const TESTS: &str = r#"#!/bin/sh
case "$1 $2" in
"--list --format") printf '%s: test\n' passes lacks ignored fails panics hangs stuck ;;
"--exact passes") echo "{\"check\": \"rounding\", \"device\": \"$ALTGRAD_DEVICES\"}" >&2 ;;
"--exact lacks") echo "SKIPPED lacks: there is no compiler" >&2 ;;
"--exact ignored") echo "test ignored ... ignored, takes minutes" ;;
"--exact fails") head -c 200000 /dev/zero | tr '\0' . ; echo "1 of 3 kernels differ"; exit 101 ;;
"--exact panics") printf '\nrunning 1 test\n\nthread main panicked at tests/a.rs:1:\nleft is not right\nstack backtrace:\n'; exit 101 ;;
"--exact hangs") while [ -e "$HANG" ]; do sleep 0.05; done ;;
"--exact stuck") sleep 1000 ;;
esac
"#;

/// Stands for a host that rounds and measures, fails with another trainer in one case, and trains nothing.
const HOST: &str = r#"#!/bin/sh
for last; do :; done
case "$*" in
"formats "*) printf '\000\000\200\077\000\000\040\300\000\000\240\076' > "$last" ;;
"bench "*" --case fp32 "*" --compare-with torch") echo "no such mode" >&2; exit 1 ;;
"bench "*)
    other=null
    case "$*" in *" --compare-with torch") other='{"median_ratio": 7.5}' ;; esac
    all=$*; case=${all#* --case }
    echo '{"size": "tiny", "cases": [{"case": "'"${case%% *}"'", "median_ms": 80.25, "launches": 1222, "mfu": 0.0316, "mfu_data_sheet": null, "other": '"$other"'}], "device_memory_mb": 812.4}' ;;
*) exit 1 ;;
esac
"#;

/// C functions that say that they are of CUDA 13.`MINOR` and 13.0.
const NVRTC: &str = "int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = MINOR; return 0; }\n";
const DRIVER: &str = "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }\n";

fn write_executable(bench: &Bench, name: &str, text: &str) {
    bench.write(name, text);
    fs::set_permissions(bench.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// An unpacked bundle with the staged host.
fn unpacked() -> Bench {
    let bench = Bench::new();
    let scripts = ["run.py", "parts.py", "processes.py", "machine.py", "summary.py"];
    let files = scripts.map(|name| format!("xtask/gpu-bundle/{name}")).into_iter();
    for file in files.chain(["configs/exp.toml".into()]) {
        let name = file.rsplit('/').next().unwrap();
        bench.write(&format!("bundle/{name}"), &fs::read_to_string(root().join(&file)).unwrap());
    }
    for name in ["altgrad-host", "plugins"] {
        symlink(stage().join(name), bench.path("bundle").join(name)).unwrap();
    }
    for name in ["gpu", "devices"] {
        write_executable(&bench, &format!("bundle/tests/{name}"), TESTS);
    }
    bench.write("bundle/build.json", r#"{"commit": "0123", "dirty": true}"#);
    bench.write("hang", "");
    fs::create_dir(bench.path("carried")).unwrap();
    bench
}

/// A toolkit of CUDA 13.`minor`: its library, or why it cannot be compiled.
fn toolkit(bench: &Bench, name: &str, minor: u32) -> Result<PathBuf, String> {
    for header in ["cuda_bf16.h", "mma.h", "crt/mma.h"] {
        bench.write(&format!("{name}/include/{header}"), "");
    }
    let version = 13000 + 10 * minor;
    bench.write(&format!("{name}/include/cuda.h"), &format!("#define CUDA_VERSION {version}\n"));
    bench.write("nvrtc.c", NVRTC);
    let folder = bench.path(name).join("lib64");
    fs::create_dir(&folder).unwrap();
    let library = folder.join("libnvrtc.so.13");
    compile_c_with(&bench.path("nvrtc.c"), &library, &[&format!("MINOR={minor}")])?;
    Ok(fs::canonicalize(library).unwrap())
}

fn script(bench: &Bench, device: &str, more: &[&str]) -> Command {
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
    script
}

fn call(bench: &Bench, device: &str, more: &[&str]) -> Output {
    script(bench, device, more).output().unwrap()
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

/// The cases of the benchmark come first, so that a call that ends early has figures; the other trainer comes last.
#[test]
#[ignore = "--all: a limit of time"]
fn a_call_ends_at_its_limit_and_the_next_one_continues() {
    if has_no_python("a_call_ends_at_its_limit_and_the_next_one_continues") {
        return;
    }
    let bench = unpacked();
    fs::remove_file(bench.path("bundle/altgrad-host")).unwrap();
    write_executable(&bench, "bundle/altgrad-host", HOST);
    let with_trainer = ["--compare-with", "torch"];
    let first = call(&bench, "cpu", &[&with_trainer[..], &["--limit", "30"]].concat());
    assert_eq!(first.status.code(), Some(3), "{first:?}");
    assert_ne!(results(&bench)["parts"]["test gpu hangs"]["status"], "passed");
    let first_log = bench.read("carried/log.txt");
    fs::remove_file(bench.path("hang")).unwrap();
    // The machine's disk is another one.
    fs::remove_dir_all(bench.path("bundle/results")).unwrap();
    let more = ["--limit", "570", "--test-limit", "10", "--continue", "carried/results.json"];
    let second = call(&bench, "cpu", &[&with_trainer[..], &more].concat());
    assert_eq!(second.status.code(), Some(1), "a part failed: {second:?}");
    let results = results(&bench);
    let (parts, calls) = (&results["parts"], &results["calls"]);
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    assert_eq!(calls[0]["build"]["commit"], "0123");
    for binary in ["gpu", "devices"] {
        let part = |test: &str| &parts[format!("test {binary} {test}")];
        let status = |test: &str| part(test)["status"].as_str().unwrap().to_string();
        assert_eq!(part("passes")["result"]["figures"][0]["device"], "cpu", "{parts}");
        for test in ["passes", "hangs"] {
            assert_eq!(status(test), "passed", "{test}: {parts}");
        }
        assert_eq!((status("lacks"), status("ignored")), ("skipped".into(), "skipped".into()));
        assert_eq!(part("lacks")["reason"], "SKIPPED lacks: there is no compiler");
        let reason = part("fails")["reason"].as_str().unwrap();
        assert!(reason.starts_with("exit code 101: ..") && reason.ends_with("1 of 3 kernels differ"));
        assert_eq!(part("panics")["result"]["first_line"], "left is not right", "{parts}");
        assert_eq!(
            (status("stuck"), &part("stuck")["reason"]),
            ("failed".into(), &"not ended after 10.0 s".into())
        );
    }
    let log = first_log + &bench.read("carried/log.txt");
    let ended: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    let before_tests = [
        "device: passed",
        "bench tiny fp32: passed",
        "bench tiny E5M2: passed",
        "start: failed",
        "kill and resume: failed",
        "kill and resume without master weights: failed",
        "kill and resume with cuBLASLt: failed",
        "kill and resume with graphs: failed",
        "tests of devices: passed",
    ];
    assert_eq!(ended.get(..before_tests.len()), Some(before_tests.as_slice()), "{log}");
    let last = ["compare tiny fp32: failed", "compare tiny E5M2: passed"];
    assert_eq!(ended.get(ended.len() - last.len()..), Some(last.as_slice()), "{log}");
    assert!(
        log.matches("== test gpu fails: failed\n").count() == 1,
        "a part that ended is not repeated: {log}"
    );
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    let summary: Vec<&str> = said.lines().rev().take(10).collect::<Vec<_>>().into_iter().rev().collect();
    let without = |line: &str, from: &str| line.split(from).next().unwrap().to_string();
    assert_eq!(without(summary[0], "; "), "summary: 10 parts passed, 12 failed, 4 were skipped", "{said}");
    assert!(summary[1].starts_with("device: cpu"), "{said}");
    let figures = [
        "ms per step (launches, % of the rate measured / of the data sheet, MB): tiny fp32 80.2 (1222, 3.2 / -, 812.4), tiny E5M2 80.2 (1222, 3.2 / -, 812.4)",
        "times the other trainer's: tiny E5M2 7.50",
        "checks: 0 of 4 resumed runs are bit-identical; 4 of 10 tests passed, 4 were not run",
        "failed: start: exit code 1: ",
    ];
    assert_eq!(summary[2..6], figures, "{said}");
    let last = ["failed: kill and resume with cuBLASLt: exit code 1: ", "and 8 more failed"];
    assert_eq!(summary[8..], last, "{said}");
}

/// A part by name, whose time is printed, and a summary without the other parts.
#[test]
fn a_part_is_chosen_by_its_name() {
    if has_no_python("a_part_is_chosen_by_its_name") {
        return;
    }
    let bench = unpacked();
    fs::remove_file(bench.path("bundle/altgrad-host")).unwrap();
    write_executable(&bench, "bundle/altgrad-host", HOST);
    let outcome = call(&bench, "cpu", &["--only", "bench"]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome:?}");
    let parts = results(&bench)["parts"].clone();
    let parts: Vec<&String> = parts.as_object().unwrap().keys().collect();
    assert_eq!(parts, ["bench tiny E5M2", "bench tiny fp32", "device"]);
    let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(said.lines().any(|line| line.starts_with("bench tiny fp32: passed (") && line.ends_with(" s)")));
    assert!(said.contains("summary: 3 parts passed, 0 failed, 0 were skipped") && !said.contains("checks: "));
}

#[test]
#[ignore = "--all: kills runs"]
fn the_benchmark_passes_and_killed_runs_resume() {
    if has_no_python("the_benchmark_passes_and_killed_runs_resume") {
        return;
    }
    let bench = unpacked();
    for name in ["gpu", "devices"] {
        // A binary without tests.
        write_executable(&bench, &format!("bundle/tests/{name}"), "#!/bin/sh\n");
    }
    // The limits are a GPU's: here they only end what hangs.
    let outcome = call(&bench, "cpu", &["--limit", "3000", "--limit-factor", "10"]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome:?}");
    let results = results(&bench);
    let parts = &results["parts"];
    for part in ["kill and resume", "kill and resume without master weights"] {
        let result = &parts[part]["result"];
        let resumed = &result["bit_identical"];
        let files = (&resumed["weights.safetensors"], &resumed["metrics.csv"]);
        assert_eq!(files, (&true.into(), &true.into()), "{parts}");
        assert_eq!(result["run"]["status"], "completed", "{parts}");
    }
    // The CPU compiles no kernels.
    let start = &parts["start"]["result"];
    assert!(start["second"]["seconds"].is_number() && start["first"]["kernels"].is_null(), "{parts}");
    let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(said.contains("\nseconds of a process of one step: "), "{said}");
    for case in ["fp32", "E5M2"] {
        let timed = &parts[format!("bench tiny {case}")]["result"];
        assert_eq!(timed["cases"][0]["case"], case, "{parts}");
        assert!(timed["machine"]["copy_gb_s"].is_number(), "{parts}");
    }
}

/// Without the device nothing else is tried. The script has found the files of CUDA by then.
#[test]
fn a_machine_without_the_device_fails_at_once() {
    const TEST: &str = "a_machine_without_the_device_fails_at_once";
    if has_no_python(TEST) {
        return;
    }
    let bench = unpacked();
    let library = match toolkit(&bench, "toolkit", 0) {
        Ok(library) => library,
        Err(why) => return skipped(TEST, &why),
    };
    let outcome = call(&bench, "cuda:9", &[]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(said.contains("error: the device does not work: exit code 4: error: device `cuda:9`"), "{said}");
    let results = results(&bench);
    let parts: Vec<&String> = results["parts"].as_object().unwrap().keys().collect();
    assert_eq!(parts, ["device"]);
    let cuda = &results["calls"][0];
    assert_eq!(cuda["nvrtc"].as_str(), library.to_str());
    let thirteen: Value = [13, 0].into_iter().collect();
    assert_eq!((&cuda["nvrtc_version"], &cuda["headers_version"]), (&thirteen, &thirteen));
    assert_eq!(cuda["CUDA_PATH"].as_str(), bench.path("toolkit").to_str());
    // The name that the host tries first leads to the library.
    let link = bench.path("bundle/results/nvrtc/libnvrtc.so");
    assert_eq!(fs::canonicalize(link).unwrap(), library);
}

/// The driver refuses what a newer library compiles, and a library compiles the headers of its own version.
#[test]
fn a_library_that_is_newer_than_the_driver_is_not_used() {
    const TEST: &str = "a_library_that_is_newer_than_the_driver_is_not_used";
    if has_no_python(TEST) {
        return;
    }
    let bench = unpacked();
    bench.write("driver/driver.c", DRIVER);
    let driver = compile_c(&bench.path("driver/driver.c"), &bench.path("driver/libcuda.so.1"));
    // The script looks into the folder that `CUDA_PATH` names first, then beside `nvcc`.
    let libraries =
        driver.and_then(|()| Ok((toolkit(&bench, "toolkit", 1)?, toolkit(&bench, "installed", 0)?)));
    let library = match libraries {
        Ok((_, library)) => library,
        Err(why) => return skipped(TEST, &why),
    };
    write_executable(&bench, "installed/bin/nvcc", "#!/bin/sh\n");
    // Nothing is tried without a host.
    fs::remove_file(bench.path("bundle/altgrad-host")).unwrap();
    let path = format!("{}:{}", bench.path("installed/bin").display(), std::env::var("PATH").unwrap());
    let mut script = script(&bench, "cuda:0", &[]);
    script.env("LD_LIBRARY_PATH", bench.path("driver")).env("PATH", path);
    let outcome = script.output().unwrap();
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let results = results(&bench);
    let cuda = &results["calls"][0];
    let thirteen: Value = [13, 0].into_iter().collect();
    for version in ["driver_cuda_version", "nvrtc_version", "headers_version"] {
        assert_eq!(cuda[version], thirteen, "{version}: {cuda}");
    }
    assert_eq!(cuda["nvrtc"].as_str(), library.to_str());
    let headers = fs::canonicalize(bench.path("installed")).unwrap();
    assert_eq!(cuda["CUDA_PATH"].as_str(), headers.to_str());
}
