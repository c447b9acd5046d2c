//! `plugins check`: valid libraries pass, and each kind of misbehaviour is named, by check, and survived.

use std::{fs, time::Instant};

use altgrad_end_to_end::{Bench, Outcome, built, plugin};
use insta::assert_snapshot;

/// `plugins check` of a library, with the requested misbehaviour of the fixture.
fn check(library: &std::path::Path, options: &[&str], misbehave: &str) -> Outcome {
    let path = library.display().to_string();
    let args = [&["plugins", "check", path.as_str()], options].concat();
    Bench::new().host_with(&args, &[("ALTGRAD_MISBEHAVE", misbehave)])
}

/// The closing line's counts: passed, failed, skipped. Warnings, if there are any, come last.
#[track_caller]
fn counts(outcome: &Outcome) -> [usize; 3] {
    let last = outcome.stdout.lines().last().unwrap_or_default();
    let numbers: Vec<usize> =
        last.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    assert!((4..=5).contains(&numbers.len()), "{last}\n{}", outcome.stderr);
    assert_eq!(numbers[0], numbers[1..].iter().sum::<usize>(), "{last}");
    [numbers[1], numbers[2], numbers[3]]
}

#[test]
fn a_sound_minifloat_passes_in_every_variant() {
    let outcome = check(&plugin("e5m2.so"), &[], "");
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let [passed, failed, _] = counts(&outcome);
    assert!(passed > 4 * 30 && failed == 0, "{}", outcome.stdout);
    for variant in ["E5M2 ", "E5M2:ieee ", "E5M2:fn ", "E5M2:fin "] {
        assert!(outcome.stdout.lines().any(|line| line.starts_with(variant)), "{variant}");
    }
    assert!(outcome.stdout.contains("E5M2:fn      sqnr_law                 skipped: "), "{}", outcome.stdout);
}

#[test]
fn each_check_has_a_line_and_modes_a_format_lacks_are_skipped_by_name() {
    let outcome = check(&built("libaltgrad_example_int8.so"), &[], "");
    assert_snapshot!("check_int8", Bench::new().page(&outcome));
}

/// Its rounding turns where it declares, and its scaling target is within 3 dB of the best.
#[test]
fn a_posit_passes_with_the_conventions_that_it_declares() {
    let outcome = check(&built("libaltgrad_example_posit8.so"), &[], "");
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for name in ["nearest_even_edges", "nearest_away_random", "error_bound", "scaling_law"] {
        let passed = |line: &str| line.contains(name) && line.ends_with(" ok");
        assert!(outcome.stdout.lines().any(passed), "{name}: {}", outcome.stdout);
    }
}

#[test]
fn optimizers_pass_their_suite() {
    let staged = ["adamw", "stiffness-adamw", "fp8-manifold", "sgd", "lion", "madam", "muon", "soap"]
        .map(|name| plugin(&format!("{name}.so")));
    let examples = [built("libaltgrad_example_sgd.so")];
    for library in staged.iter().chain(&examples) {
        let outcome = check(library, &[], "");
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        let [passed, failed, _] = counts(&outcome);
        assert!(passed >= 10 && failed == 0, "{}", outcome.stdout);
    }
}

#[test]
fn the_projects_sinks_and_the_example_pass() {
    let libraries = [plugin("csv.so"), plugin("tensorboard.so"), built("libaltgrad_example_jsonl.so")];
    for library in libraries {
        let outcome = check(&library, &["--seed", "1000"], "");
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        let [passed, failed, skipped] = counts(&outcome);
        assert!(passed >= 19 && failed == 0 && skipped == 0, "{}", outcome.stdout);
    }
    let options = ["--only", "life", "--set", "histograms=false", "--set", "path=other.csv"];
    let outcome = check(&plugin("csv.so"), &options, "");
    assert_eq!((outcome.code, counts(&outcome)), (0, [2, 0, 0]), "{}", outcome.stdout);
    let outcome = check(&plugin("csv.so"), &["--only", "life", "--set", "path=../other.csv"], "");
    assert_eq!(outcome.code, 3, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("`path` must stay inside the run folder"), "{}", outcome.stdout);
}

/// Seconds a check may take: few where it hangs, as a busy machine is slow with the others.
fn timeout_for(misbehave: &str) -> &'static str {
    if misbehave.ends_with(":hang") { "2" } else { "60" }
}

#[test]
fn a_sink_that_misbehaves_is_named() {
    let fixture = built("libaltgrad_fixture_panicker.so");
    let rows = [
        ("sink.log", "many_rows", "step 0: `log` failed: panicked in `log`"),
        ("sink.log:error", "odd_names", "`log` failed: asked to fail in sink.log"),
        ("sink.open:hang", "many_rows", "hung: not done after 2 s"),
        ("sink.state", "resume_again", "`state` failed: panicked in `state`"),
        ("sink.finish", "wrong_order", "`finish` failed: panicked in `finish`"),
        ("sink.log:abort", "many_rows", "crashed, aborted (SIGABRT), before the check was done"),
        ("sink.log:print", "life", "wrote to standard output: \"look at me"),
        ("sink.open:leak", "leaks", "bytes of memory each time it is made, used and dropped"),
        ("sink.state:locale", "locale", "depends on the locale: its results differ with LC_ALL=de_DE.UTF-8"),
    ];
    for (misbehave, name, message) in rows {
        let set = format!("misbehave={misbehave}");
        let outcome =
            check(&fixture, &["--timeout-s", timeout_for(misbehave), "--only", name, "--set", &set], "");
        assert_eq!(outcome.code, 3, "{misbehave}: {}{}", outcome.stdout, outcome.stderr);
        let line = outcome
            .stdout
            .lines()
            .find(|line| line.starts_with("sink bad") && line.contains(name))
            .unwrap_or_default();
        assert!(line.contains("FAILED: ") && line.contains(message), "{misbehave}: {line}");
    }
}

#[test]
fn an_optimizer_that_misbehaves_is_named() {
    let path = built("libaltgrad_fixture_panicker.so").display().to_string();
    let rows = [
        ("optimizer.step", "finite", "panicked in `step`"),
        ("optimizer.step", "random_steps", "seed 0: `"),
        ("optimizer.step:hang", "finite", "hung: not done after 2 s"),
        ("optimizer.step:abort", "finite", "crashed, aborted (SIGABRT)"),
        ("optimizer.step:print", "repeatable", "wrote to standard output"),
        ("optimizer.new:leak", "leaks", "leaks 1"),
        (
            "optimizer.step:locale",
            "locale",
            "depends on the locale: its results differ with LC_ALL=de_DE.UTF-8",
        ),
    ];
    for (misbehave, name, message) in rows {
        // Only a hang reaches the limit; the others may take their time on a busy machine.
        let limit = if misbehave.ends_with("hang") { "2" } else { "60" };
        let args = ["plugins", "check", path.as_str(), "--timeout-s", limit, "--only", name];
        let outcome = Bench::new().host_with(&args, &[("ALTGRAD_PANIC_IN", misbehave)]);
        assert_eq!(outcome.code, 3, "{misbehave}: {}{}", outcome.stdout, outcome.stderr);
        let line = outcome.stdout.lines().find(|line| line.starts_with("optimizer bad")).unwrap_or_default();
        assert!(line.contains("FAILED: ") && line.contains(message), "{misbehave}: {line}");
    }
}

/// A failure at random comes again, at once, by the command that the report gives.
#[test]
fn a_random_failure_is_replayed_from_its_seed() {
    let fixture = built("libaltgrad_fixture_misbehaver.so");
    let options = ["--json", "--only", "random_calls", "--seed", "40"];
    let outcome = check(&fixture, &options, "ties");
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let (why, replay) =
        (json["checks"][1]["why"].as_str().unwrap(), json["checks"][1]["replay"].as_str().unwrap());
    let seed: u64 = why.strip_prefix("seed ").unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(seed >= 40 && replay.ends_with(&format!(" --only random_calls --seed {seed}")), "{replay}");
    let words: Vec<&str> = replay.split(' ').skip(1).collect();
    let again = Bench::new().host_with(&words, &[("ALTGRAD_MISBEHAVE", "ties")]);
    assert_eq!(again.code, 3, "{}", again.stdout);
    assert!(again.stdout.contains(why), "{why}:\n{}", again.stdout);
}

#[test]
fn misbehaviour_is_named_and_survived() {
    let fixture = built("libaltgrad_fixture_misbehaver.so");
    let sound = check(&fixture, &[], "");
    assert_eq!(sound.code, 0, "{}{}", sound.stdout, sound.stderr);
    let rows = [
        ("hang", "kernels", "hung: not done after 2 s"),
        ("abort", "kernels", "crashed, aborted (SIGABRT), before the check was done"),
        ("exit", "kernels", "ended the process with exit code 0, before the check was done"),
        ("print", "kernels", "wrote to standard output: \"look at me\\n"),
        ("exit-later", "spec", "ended the process with exit code 5, before the check was done"),
        ("lie", "decode_codes", "code 0x3 decodes to 3e0 (0x40400000), expected 4e0"),
        ("waver", "spec", ""),
        ("leak", "leaks", "bytes of memory each time it is made, used and dropped"),
        ("locale", "locale", "depends on the locale: its results differ with LC_ALL=de_DE.UTF-8"),
        ("ties", "nearest_even_edges", "nearest-even: 1e0 (0x3f800000), expected 0e0 (0x00000000)"),
        ("zero-sign", "nearest_even_edges", "nearest-even: 0e0 (0x00000000), expected -0e0 (0x80000000)"),
        ("tired", "endurance", "call 100000 of an instance: `fake_quant or encode` failed: too tired"),
    ];
    for (misbehave, name, message) in rows {
        let only = if misbehave == "ties" { "nearest_even" } else { name };
        let outcome = check(&fixture, &["--timeout-s", "2", "--only", only], misbehave);
        assert_eq!(outcome.code, 3, "{misbehave}: {}{}", outcome.stdout, outcome.stderr);
        let line = outcome.stdout.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains("FAILED: ") && line.contains(message), "{misbehave}: {line}");
        assert!(counts(&outcome)[1] >= 1);
    }
}

/// Memory, names, lasting effects, omissions: each violation by an optimizer or a sink is found by the check for it.
#[test]
fn oversteps_are_named() {
    let fixture = built("libaltgrad_fixture_trespasser.so");
    let sound = check(&fixture, &[], "");
    assert_eq!(sound.code, 0, "{}{}", sound.stdout, sound.stderr);
    let crashed = "crashed, segmentation fault (SIGSEGV), before the check was done: in step of ";
    let rows = [
        ("reads-behind", "memory", crashed),
        ("reads-before", "memory", crashed),
        ("writes-gradient", "memory", crashed),
        ("state-name", "states", "the name of the state \"../../momentum\" is not made of letters"),
        ("state-escape", "states", "the name of the state \"\\u{1b}[31mmomentum\" is not made of letters"),
        ("tired", "endurance", "step 100001: `step` failed: too tired"),
        (
            "choice",
            "choices",
            "with `nesterov` = Bool(true): finite: `wte.weight`: `step` failed: panicked in `step`",
        ),
        ("chdir", "moves", "changed the working directory to `/`"),
        ("home", "environment", "depends on the environment: its results differ with HOME=/nowhere"),
        ("drops", "kept_values", "are missing in the files: the first, `train/loss` of step 499"),
        ("rounds", "kept_values", " is only rounded"),
        ("omits", "kept_values", "the first, `late/metric` of step 1000"),
        ("outside", "life", "left \"lines.txt\" in the folder for temporary files"),
        ("tired", "many_rows", "step 100000: `log` failed: too tired"),
    ];
    for (misbehave, name, message) in rows {
        let outcome = check(&fixture, &["--only", name], misbehave);
        assert_eq!(outcome.code, 3, "{misbehave}: {}{}", outcome.stdout, outcome.stderr);
        let failed = |line: &&str| line.contains(name) && line.contains("FAILED: ");
        let line = outcome.stdout.lines().find(failed).unwrap_or_default();
        assert!(line.contains(message), "{misbehave}: {line}");
    }
}

#[test]
#[ignore = "--all: waits for three limits"]
fn a_plugin_that_always_hangs_is_given_up_after_three_checks() {
    let fixture = built("libaltgrad_fixture_misbehaver.so");
    let begun = Instant::now();
    let outcome = check(&fixture, &["--timeout-s", "1"], "hangs");
    let seconds = begun.elapsed().as_secs();
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stdout.matches("FAILED: hung").count(), 3, "{}", outcome.stdout);
    let stopped = "stopped: three checks were not done in time, and the other ";
    assert!(outcome.stdout.contains(stopped), "{}", outcome.stdout);
    // Three checks with the default limit would take longer.
    assert!(seconds < 60, "{seconds} s");
}

/// Not "hung": nanoseconds per element, beside those of a shipped plugin.
#[test]
fn a_slow_plugin_is_told_from_one_that_hangs() {
    let fixture = built("libaltgrad_fixture_misbehaver.so");
    let outcome = check(&fixture, &["--timeout-s", "2", "--only", "random"], "slow");
    let line = outcome.stdout.lines().find(|line| line.contains("nearest_even_random")).unwrap_or_default();
    assert!(line.contains("FAILED: slow: not done after 2 s; "), "{}", outcome.stdout);
    assert!(line.contains(" ns per element; the shipped `E4M3` takes "), "{line}");
    let outcome = check(&fixture, &["--only", "speed"], "slow");
    assert_eq!(outcome.code, 0, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("WARNING: "), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("2 checks: 1 passed, 0 failed, 0 skipped, 1 with a warning\n"));
}

#[test]
fn one_panic_is_one_line_and_a_line_of_other_checks() {
    let path = built("libaltgrad_fixture_panicker.so").display().to_string();
    let args = ["plugins", "check", path.as_str()];
    let outcome = Bench::new().host_with(&args, &[("ALTGRAD_PANIC_IN", "optimizer.step")]);
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    let failed = |line: &&str| line.starts_with("optimizer bad") && line.contains("FAILED: ");
    let lines: Vec<&str> =
        outcome.stdout.lines().filter(failed).filter(|line| line.contains("panic")).collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].contains("finite ") && lines[0].contains("asked to panic in optimizer.step"),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains(" more ") && lines[1].contains(" again: "), "{}", lines[1]);
    assert!(lines[1].contains("repeatable, ") && lines[1].contains("not_finite, "), "{}", lines[1]);
}

#[test]
fn libraries_that_do_not_load_fail_that_check() {
    let bench = Bench::new();
    let bytes = fs::read(plugin("e5m2.so")).unwrap();
    fs::write(bench.path("cut.so"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = bench.host(&["plugins", "check", "cut.so"]);
    assert_eq!((cut.code, counts(&cut)), (3, [0, 1, 0]), "{}", cut.stdout);
    assert!(
        cut.stdout.contains("FAILED: plugin library refused: the library is cut short"),
        "{}",
        cut.stdout
    );
}

#[test]
fn json_holds_each_check_and_its_verdict() {
    let fixture = built("libaltgrad_fixture_misbehaver.so");
    let outcome = check(&fixture, &["--json", "--only", "nearest_even_edges"], "ties");
    assert_eq!(outcome.code, 3);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&json["passed"], &json["failed"], &json["skipped"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
    let check = &json["checks"][1];
    assert_eq!((&check["plugin"], &check["check"]), (&"BAD2".into(), &"nearest_even_edges".into()));
    assert_eq!(check["verdict"], "failed");
    assert!(check["why"].as_str().unwrap().contains("expected 0e0"), "{check}");
    assert_eq!(json["checks"][0]["verdict"], "ok");
}

#[test]
fn the_command_that_repeats_a_check_is_one_for_a_shell() {
    let bench = Bench::new();
    fs::create_dir(bench.path("a b")).unwrap();
    fs::copy(built("libaltgrad_fixture_misbehaver.so"), bench.path("a b/bad.so")).unwrap();
    let args = ["plugins", "check", "a b/bad.so", "--only", "nearest_even_edges"];
    let outcome = bench.host_with(&args, &[("ALTGRAD_MISBEHAVE", "ties")]);
    let again = "again: altgrad-host plugins check 'a b/bad.so' --only nearest_even_edges\n";
    assert!(outcome.code == 3 && outcome.stdout.contains(again), "{}", outcome.stdout);
}

#[test]
fn options_without_a_sink_are_refused_and_no_time_is_too_long() {
    let refused = check(&plugin("e5m2.so"), &["--only", "spec", "--set", "foo=1"], "");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("optimizers and sinks, and the library has none"), "{}", refused.stderr);
    let most = u64::MAX.to_string();
    let patient = check(&plugin("e5m2.so"), &["--only", "spec", "--timeout-s", &most], "");
    assert_eq!(patient.code, 0, "{}{}", patient.stdout, patient.stderr);
}
