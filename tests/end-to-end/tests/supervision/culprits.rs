//! Plugins that end the process or never return: the message names plugin and call, and so does `run.json`.

use std::path::Path;

use altgrad_end_to_end::{Bench, TINY, built, compile_c, plugin, skipped};
use serde_json::Value;

/// A bench whose format misbehaves as `ALTGRAD_MISBEHAVE` requests: in C, if there is a compiler.
pub fn in_c() -> Result<Bench, String> {
    let bench = bench("BAD2-C");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/misbehaver/c/misbehaver.c");
    compile_c(&source, &bench.path("plugins/bad.so"))?;
    // It has no notes: while it behaves, its code describes it, and the description is stored.
    assert_eq!(bench.host(&["plugins", "inspect", "plugins/bad.so"]).code, 0);
    Ok(bench)
}

fn in_rust() -> Bench {
    let bench = bench("BAD2");
    bench.add_plugin(&built("libaltgrad_fixture_misbehaver.so"));
    bench
}

fn bench(format: &str) -> Bench {
    let bench = Bench::new();
    bench.add_plugin(&plugin("adamw.so"));
    let run_file = TINY.replace("max_steps = 6", "max_steps = 400").replace("E5M2", format);
    bench.write(
        "run.toml",
        &format!("{run_file}\n[checkpoint]\nevery = 2\n[plugins]\ndir = \"plugins\"\ncheck = \"none\"\n"),
    );
    bench
}

/// Runs, and asserts exit code, message and `run.json`.
#[track_caller]
fn ends(bench: &Bench, misbehave: &str, code: i32, said: &str, place: &str) {
    let out = misbehave.replace('@', "-");
    let outcome =
        bench.host_with(&["run", "run.toml", "--quiet", "--out", &out], &[("ALTGRAD_MISBEHAVE", misbehave)]);
    assert_eq!(outcome.code, code, "{misbehave}: {}", outcome.stderr);
    let error = outcome.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains(said) && error.contains(place), "{misbehave}: {}", outcome.stderr);
    let status: Value = serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
    assert_eq!(status["status"], "failed", "{misbehave}: {status}");
    let why = status["error"].as_str().unwrap();
    assert!(why.contains(place), "{misbehave}: {why}");
    // A format in C calls the function for rounding in both cases.
    assert!(why.contains("`fake_quant`") || why.contains("`encode`"), "{misbehave}: {why}");
    assert!(status["environment"]["plugins"].is_array(), "{misbehave}: the rest of the file stays");
    let events = bench.read(&format!("{out}/events.jsonl"));
    assert!(events.contains("\"kind\":\"failed\"") && events.contains(place), "{misbehave}: {events}");
}

#[test]
fn a_format_in_c_that_ends_the_process_is_named() {
    let bench = match in_c() {
        Ok(bench) => bench,
        Err(why) => return skipped("a_format_in_c_that_ends_the_process_is_named", &why),
    };
    let library = bench.path("plugins/bad.so").display().to_string();
    let place = format!("plugin `BAD2-C` ({library}), call `");
    ends(&bench, "segfault@1000", 3, "SIGSEGV in", &place);
    ends(&bench, "abort@1000", 3, "SIGABRT in", &place);
    ends(&bench, "exit@1000", 3, "the process was ended (exit) in", &place);
    ends(&bench, "exit-now@1000", 3, "the process ended with exit code 0 during", &place);
    // Any process may have sent it, most likely the system for lack of memory.
    ends(&bench, "kill@1000", 137, "SIGKILL (perhaps for its memory) during", &place);
    // Finished work is kept: without the fault the run continues.
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "exit-now-1000", "--resume"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(bench.read("exit-now-1000/run.json").contains("\"status\": \"completed\""));
}

#[test]
fn a_format_in_rust_that_ends_the_process_is_named() {
    let bench = in_rust();
    let library = bench.path("plugins/libaltgrad_fixture_misbehaver.so").display().to_string();
    let place = format!("plugin `BAD2` ({library}), call `fake_quant`");
    ends(&bench, "quant-abort@1000", 3, "SIGABRT in", &place);
    ends(&bench, "quant-exit@1000", 3, "the process was ended (exit) in", &place);
    ends(&bench, "quant-overflow@1000", 3, "SIGSEGV (stack overflow) in", &place);
}

#[test]
fn a_library_that_does_not_load_is_named_and_no_folder_is_left() {
    let bench = match in_c() {
        Ok(bench) => bench,
        Err(why) => {
            return skipped("a_library_that_does_not_load_is_named_and_no_folder_is_left", &why);
        }
    };
    let library = bench.path("plugins/bad.so").display().to_string();
    for command in ["run", "check"] {
        let outcome = bench.host_with(&[command, "run.toml"], &[("ALTGRAD_MISBEHAVE", "exit-at-load")]);
        assert_eq!(outcome.code, 3, "{command}: {}", outcome.stderr);
        let said = format!("error: the process was ended (exit) in library `{library}`, call `load`\n");
        assert!(outcome.stderr.contains(&said), "{command}: {}", outcome.stderr);
    }
    let args = ["run", "run.toml", "--set", "limits.plugin_call_timeout_s=0.5"];
    let outcome = bench.host_with(&args, &[("ALTGRAD_MISBEHAVE", "hang-at-load")]);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let said = format!("error: library `{library}`, call `load` did not return within 500ms\n");
    assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
    assert!(!bench.contents().contains(&"runs".to_string()));
}

#[test]
fn a_crash_outside_of_a_run_keeps_its_signal_and_names_the_plugin() {
    use std::os::unix::process::ExitStatusExt;
    let bench = in_rust();
    let run = bench.host(&["run", "run.toml", "--quiet", "--out", "run"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut command = bench.command(&["evaluate", "run"]);
    let output = command.env("ALTGRAD_MISBEHAVE", "quant-abort").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{stderr}");
    assert!(stderr.contains("error: SIGABRT in plugin `BAD2` ("), "{stderr}");
}

#[test]
fn a_call_that_does_not_return_is_told_and_then_ends_the_run() {
    let bench = match in_c() {
        Ok(bench) => bench,
        Err(why) => return skipped("a_call_that_does_not_return_is_told_and_then_ends_the_run", &why),
    };
    let limits = ["--set", "limits.plugin_call_warning_s=0.2", "--set", "limits.plugin_call_timeout_s=0.6"];
    let args = [&["run", "run.toml", "--quiet", "--out", "run"], limits.as_slice()].concat();
    let outcome = bench.host_with(&args, &[("ALTGRAD_MISBEHAVE", "hang@1000")]);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let place = "plugin `BAD2-C` (";
    assert!(outcome.stderr.contains(&format!("warning: {place}")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("` has not returned for 200ms"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("` did not return within 600ms"), "{}", outcome.stderr);
    let status = bench.read("run/run.json");
    assert!(
        status.contains("\"status\": \"failed\"") && status.contains("did not return within"),
        "{status}"
    );
    let events = bench.read("run/events.jsonl");
    assert!(
        events.contains("\"kind\":\"plugin_call\"") && events.contains("\"kind\":\"failed\""),
        "{events}"
    );
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run", "--resume"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("warning"), "{}", outcome.stderr);
}
