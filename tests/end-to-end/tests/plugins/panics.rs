//! Plugins that panic: each call is guarded, the panic is reported, and the run ends as it should.

use altgrad_end_to_end::{Bench, Outcome, TINY, built};

/// The host refused with `code`, printed `message` (and `place`, if given) and left nothing behind.
#[track_caller]
fn refused(bench: &Bench, outcome: &Outcome, code: i32, message: &str, place: &str) {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, code, "{stderr}");
    let first = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(first.contains(message), "expected `{message}` in one line:\n{stderr}");
    assert!(stderr.contains(place), "expected the place `{place}`:\n{stderr}");
    assert!(stderr.contains("\nhint: "), "expected a hint:\n{stderr}");
    assert!(
        !stderr.contains("stack backtrace") && !stderr.contains("RUST_BACKTRACE"),
        "a panic got out:\n{stderr}"
    );
    assert!(!bench.contents().contains(&"runs".to_string()), "a run folder was left behind");
}

/// The tiny run with every plugin the panicking one.
fn panicking_run() -> String {
    let run_file = TINY.replace("E5M2", "BAD8").replace("\"adamw\"", "\"bad\"");
    format!(
        "{run_file}\n[plugins]\ndir = \"plugins\"\n# Its optimizer does nothing.\ncheck = \"none\"\n[[sink]]\nname = \"bad\"\n"
    )
}

fn panicking_bench() -> Bench {
    let bench = Bench::new();
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    bench.write("tiny.toml", &panicking_run());
    bench
}

#[test]
fn plugins_that_are_not_asked_to_panic_train() {
    let outcome = panicking_bench().host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn a_panic_before_the_first_step_refuses_the_run() {
    let calls = ["format.new", "format.spec", "optimizer.new", "optimizer.states", "sink.new", "sink.open"];
    for call in calls {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml"], &[("ALTGRAD_PANIC_IN", call)]);
        let method = call.split('.').nth(1).unwrap();
        let message = format!("panicked in `{method}` at tests/fixtures/panicker/src/lib.rs");
        refused(&bench, &outcome, 3, &message, "libaltgrad_fixture_panicker.so");
    }
}

#[test]
fn a_panic_or_error_in_a_step_fails_the_run_and_names_the_plugin() {
    for call in ["format.fake_quant", "optimizer.step", "format.fake_quant:error", "optimizer.step:error"] {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", call)]);
        assert_eq!(outcome.code, 1, "{call}: {}", outcome.stderr);
        let said = outcome.stderr.lines().next().unwrap();
        assert!(said.starts_with("error: ") && said.contains("plugin `"), "{call}: {said}");
        assert!(outcome.stderr.contains("libaltgrad_fixture_panicker.so"), "{call}: {}", outcome.stderr);
        let status = bench.read("runs/tiny/run.json");
        assert!(status.contains("\"status\": \"failed\""), "{call}: {status}");
    }
}

#[test]
fn a_sink_that_panics_loses_its_records_and_training_completes() {
    let calls =
        ["sink.log", "sink.log:error", "sink.alert", "sink.summary", "sink.finish", "sink.finish:error"];
    for call in calls {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", call)]);
        assert_eq!(outcome.code, 1, "{call}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("sink plugin `bad`"), "{call}: {}", outcome.stderr);
        let status = bench.read("runs/tiny/run.json");
        assert!(status.contains("\"status\": \"completed\"") && status.contains("\"steps\": 6"), "{status}");
        assert!(bench.path("runs/tiny/weights.safetensors").is_file());
    }
}

#[test]
fn a_panic_in_a_destructor_does_not_leave_the_library() {
    let outcome =
        panicking_bench().host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", "drop")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
