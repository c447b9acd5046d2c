//! Whose code runs: libraries outside the host's folder need trust, and nothing that a file names runs code unasked.

use std::{fs, path::Path, process::Command};

use altgrad_end_to_end::{Bench, Outcome, TINY, compile_c_with, plugin, skipped};

/// A format whose library writes a file as soon as it is loaded. With `DESCRIBED`, it has notes.
const TELLTALE: &str = r#"
#include "altgrad_plugin.h"
#include <stdio.h>
static const float values[4] = {0.0f, 1.0f, -2.0f, -1.0f};
static const altgrad_format_v1 int2 = {
    .struct_size = sizeof(altgrad_format_v1), .spec = ALTGRAD_SPEC_TABLE, .id = "INT2", .version = "1.0.0",
    .summary = "-2 to 1", .bits = 2, ALTGRAD_VALUES(values),
};
#ifdef DESCRIBED
ALTGRAD_DESCRIBE_FORMAT("INT2", "1.0.0", "-2 to 1");
#endif
ALTGRAD_EXPORT_FORMATS(&int2);
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen(TRACE, "w");
    if (file) fclose(file);
}
"#;

/// A bench whose run file names that format; `None`, with a message, without a C compiler.
fn telltale(test: &str, defines: &[&str]) -> Option<Bench> {
    let bench = Bench::new();
    bench.write("telltale.c", TELLTALE);
    bench.write("tiny.toml", &format!("{TINY}[plugins]\ndir = \"theirs\"\n").replace("E5M2", "INT2"));
    fs::create_dir(bench.path("theirs")).unwrap();
    fs::copy(plugin("adamw.so"), bench.path("theirs/adamw.so")).unwrap();
    let trace = format!("TRACE=\"{}\"", bench.path("trace").display());
    let defines: Vec<&str> = [trace.as_str()].into_iter().chain(defines.iter().copied()).collect();
    match compile_c_with(&bench.path("telltale.c"), &bench.path("theirs/int2.so"), &defines) {
        Ok(()) => Some(bench),
        Err(why) => {
            skipped(test, &why);
            None
        }
    }
}

fn outcome(command: &mut Command) -> Outcome {
    Outcome::from(command.output().unwrap())
}

/// True if the library was loaded since the last call of this function.
fn ran(bench: &Bench) -> bool {
    fs::remove_file(bench.path("trace")).is_ok()
}

#[test]
fn a_run_file_runs_no_code_before_the_user_trusts_it() {
    for defines in [&["DESCRIBED"][..], &[]] {
        let Some(bench) = telltale("a_run_file_runs_no_code_before_the_user_trusts_it", defines) else {
            return;
        };
        for command in [
            &["check", "tiny.toml"][..],
            &["run", "tiny.toml"],
            &["diff", "tiny.toml", "tiny.toml"],
            &["casts", "show", "tiny.toml"],
        ] {
            let refused = outcome(&mut bench.distrustful(command));
            assert_eq!(refused.code, 3, "{command:?}: {}", refused.stderr);
            let said = "the library is outside the host's folder, and not trusted";
            assert!(
                refused.stderr.contains(said) && refused.stderr.contains("--trust"),
                "{}",
                refused.stderr
            );
            assert!(!ran(&bench), "{command:?} ran it");
        }
        let trusted = outcome(&mut bench.distrustful(&["check", "tiny.toml", "--trust"]));
        assert_eq!(trusted.code, 0, "{}", trusted.stderr);
        assert!(ran(&bench));
        let remembered = outcome(&mut bench.distrustful(&["check", "tiny.toml"]));
        assert_eq!((remembered.code, remembered.stderr.as_str()), (0, ""));
        // Another build is another library.
        let mut bytes = fs::read(bench.path("theirs/int2.so")).unwrap();
        bytes.push(0);
        ran(&bench);
        fs::write(bench.path("theirs/int2.so"), bytes).unwrap();
        assert_eq!(outcome(&mut bench.distrustful(&["check", "tiny.toml"])).code, 3);
        assert!(!ran(&bench));
    }
}

#[test]
fn reading_a_run_folder_runs_no_code() {
    let Some(bench) = telltale("reading_a_run_folder_runs_no_code", &["DESCRIBED"]) else { return };
    let run = outcome(&mut bench.distrustful(&["run", "tiny.toml", "--out", "theirs/run", "--trust"]));
    assert!(run.code == 0 && ran(&bench), "{}", run.stderr);
    fs::remove_dir_all(bench.path("state")).unwrap();
    let config = "theirs/run/config.toml";
    for (command, code) in [
        (&["compare", "theirs/run"][..], 0),
        (&["report", "theirs/run", "--out", "page.html"], 0),
        (&["check", config, "--out", "other"], 3),
        (&["casts", "show", config], 3),
        (&["sample", "theirs/run", "--prompt", "the"], 3),
        (&["evaluate", "theirs/run"], 3),
    ] {
        let said = outcome(&mut bench.distrustful(command));
        assert_eq!(said.code, code, "{command:?}: {}{}", said.stdout, said.stderr);
        assert!(!ran(&bench), "{command:?} ran it");
    }
}

/// A run may list libraries by path: the user who names a folder does not name those.
#[test]
fn a_folder_named_for_a_checkpoint_replaces_every_library_of_its_run() {
    let test = "a_folder_named_for_a_checkpoint_replaces_every_library_of_its_run";
    let Some(bench) = telltale(test, &["DESCRIBED"]) else { return };
    let listing = "dir = \"theirs\"\nload = [\"./theirs/int2.so\", \"adamw\"]";
    bench.write("tiny.toml", &bench.read("tiny.toml").replace("dir = \"theirs\"", listing));
    let run = outcome(&mut bench.distrustful(&["run", "tiny.toml", "--out", "run", "--trust"]));
    assert!(run.code == 0 && ran(&bench), "{}", run.stderr);
    fs::remove_dir_all(bench.path("state")).unwrap();
    fs::create_dir(bench.path("mine")).unwrap();
    fs::copy(plugin("e5m2.so"), bench.path("mine/e5m2.so")).unwrap();
    let evaluate = || outcome(&mut bench.distrustful(&["evaluate", "run", "--plugins", "mine"]));
    let without = evaluate();
    assert_eq!(without.code, 2, "{}", without.stderr);
    assert!(without.stderr.contains("unknown format `INT2`") && !ran(&bench), "{}", without.stderr);
    fs::copy(bench.path("theirs/int2.so"), bench.path("mine/int2.so")).unwrap();
    let with = evaluate();
    assert!(with.code == 0 && ran(&bench), "{}", with.stderr);
}

/// The hash of such a library does not cover the others.
#[test]
fn trust_in_a_library_that_looks_beside_itself_ends_with_its_folder() {
    let test = "trust_in_a_library_that_looks_beside_itself_ends_with_its_folder";
    let Some(bench) = telltale(test, &["DESCRIBED"]) else { return };
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-api/include");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-DDESCRIBED", "-o", "theirs/int2.so"]);
    compiler.arg(format!("-DTRACE=\"{}\"", bench.path("trace").display()));
    compiler.arg("telltale.c").arg("-I").arg(include).current_dir(bench.path(""));
    assert!(compiler.status().unwrap().success());
    let check = |args: &[&str]| outcome(&mut bench.distrustful(&[&["check"], args].concat()));
    let trusted = check(&["tiny.toml", "--trust"]);
    assert!(trusted.code == 0 && ran(&bench), "{}", trusted.stderr);
    let remembered = check(&["tiny.toml"]);
    assert!(remembered.code == 0 && ran(&bench), "{}", remembered.stderr);
    fs::create_dir(bench.path("copied")).unwrap();
    for name in ["adamw.so", "int2.so"] {
        fs::copy(bench.path("theirs").join(name), bench.path("copied").join(name)).unwrap();
    }
    bench.write("copied.toml", &bench.read("tiny.toml").replace("theirs", "copied"));
    let copied = check(&["copied.toml"]);
    assert!(copied.code == 3 && copied.stderr.contains("not trusted"), "{}", copied.stderr);
    assert!(!ran(&bench));
}

#[test]
fn what_the_user_names_needs_no_trust_and_a_described_library_runs_no_code() {
    let test = "what_the_user_names_needs_no_trust_and_a_described_library_runs_no_code";
    let Some(bench) = telltale(test, &["DESCRIBED"]) else { return };
    for command in [&["plugins", "list", "--dir", "theirs"][..], &["plugins", "inspect", "theirs/int2.so"]] {
        let said = outcome(&mut bench.distrustful(command));
        assert!(said.code == 0 && said.stdout.contains("INT2"), "{}", said.stderr);
        assert!(!ran(&bench), "{command:?}");
    }
    let checked = outcome(&mut bench.distrustful(&["plugins", "check", "theirs/int2.so", "--only", "spec"]));
    assert!(checked.code == 0 && ran(&bench), "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn members_of_a_sweep_inherit_trust() {
    let Some(bench) = telltale("members_of_a_sweep_inherit_trust", &["DESCRIBED"]) else { return };
    bench.write("sweep.toml", "name = \"two\"\nbase = \"tiny.toml\"\n[axes]\nrun.seed = [1, 2]\n");
    let refused = outcome(&mut bench.distrustful(&["sweep", "sweep.toml"]));
    assert!(refused.code == 3 && !ran(&bench), "{}", refused.stderr);
    let swept = outcome(&mut bench.distrustful(&["sweep", "sweep.toml", "--trust"]));
    assert_eq!(swept.code, 0, "{}{}", swept.stdout, swept.stderr);
}

/// The results of the checks of the run's plugins in run.json.
fn checked(run: &Path) -> Vec<bool> {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let plugins = record["environment"]["plugins"].as_array().unwrap();
    plugins.iter().map(|plugin| plugin["checked"].as_bool().unwrap()).collect()
}

#[test]
fn a_plugin_that_fails_a_check_is_refused_unless_the_run_file_wants_it_unchecked() {
    let bench = Bench::new();
    bench.add_plugin(&altgrad_end_to_end::built("libaltgrad_fixture_misbehaver.so"));
    bench.add_plugin(&plugin("adamw.so"));
    bench.write("tiny.toml", &format!("{TINY}[plugins]\ndir = \"plugins\"\n").replace("E5M2", "BAD2"));
    let run = |out: &str, more: &[&str], misbehave: &str| {
        let args = [&["run", "tiny.toml", "--trust", "--out", out][..], more].concat();
        outcome(bench.distrustful(&args).env("ALTGRAD_MISBEHAVE", misbehave))
    };
    for (misbehave, check) in [("lie", "decode_codes"), ("ties", "nearest_even_edges"), ("waver", "spec")] {
        let refused = run("refused", &[], misbehave);
        assert_eq!(refused.code, 3, "{misbehave}: {}", refused.stderr);
        let said = "format plugin `BAD2` fails a check: ";
        assert!(refused.stderr.contains(said) && refused.stderr.contains(check), "{}", refused.stderr);
        assert!(!bench.path("refused").exists(), "{misbehave}");
    }
    let unchecked = run("unchecked", &["--set", "plugins.check=\"none\""], "ties");
    assert_eq!(unchecked.code, 0, "{}", unchecked.stderr);
    assert!(checked(&bench.path("unchecked")).contains(&false));
    let note = "note: unchecked: it used plugins without checking them: ";
    let compared = bench.host(&["compare", "unchecked"]);
    assert!(compared.stderr.contains(note) && compared.stderr.contains("format BAD2"), "{}", compared.stderr);
    let sound = run("sound", &[], "");
    assert_eq!(sound.code, 0, "{}", sound.stderr);
    assert_eq!(checked(&bench.path("sound")), [true, true]);
}

/// In a run as in `plugins check`: a choice nobody made, an option of this run, an exit.
#[test]
fn a_run_checks_its_options_and_names_the_check_that_did_not_end() {
    let bench = Bench::new();
    bench.add_plugin(&altgrad_end_to_end::built("libaltgrad_fixture_misbehaver.so"));
    bench.add_plugin(&altgrad_end_to_end::built("libaltgrad_fixture_trespasser.so"));
    let text = format!("{TINY}[plugins]\ndir = \"plugins\"\n").replace("E5M2", "BAD2");
    bench.write("tiny.toml", &text.replace("adamw", "greedy"));
    let run = |more: &[&str], misbehave: &str| {
        let args = [&["check", "tiny.toml", "--trust"][..], more].concat();
        outcome(bench.distrustful(&args).env("ALTGRAD_MISBEHAVE", misbehave))
    };
    let decay = ["--set", "optimizer.decay=0.5"];
    for (more, misbehave, said) in [
        (
            &[][..],
            "choice",
            "optimizer plugin `greedy` fails a check: choices: with `nesterov` = Bool(true): ",
        ),
        (&decay, "number", "optimizer plugin `greedy` with decay=0.5 fails a check: repeatable: "),
        (&[], "quant-abort", "format plugin `BAD2` fails a check: nearest_even_edges: crashed, aborted"),
        (&[], "quant-exit", "format plugin `BAD2` fails a check: nearest_even_edges: ended the process"),
    ] {
        let refused = run(more, misbehave);
        assert_eq!(refused.code, 3, "{misbehave}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{misbehave}: {}", refused.stderr);
    }
    let sound = run(&decay, "");
    assert_eq!(sound.code, 0, "{}", sound.stderr);
}

#[test]
fn formats_are_listed_beside_one_that_fails_a_check() {
    let bench = Bench::new();
    bench.add_plugin(&altgrad_end_to_end::built("libaltgrad_fixture_misbehaver.so"));
    bench.add_plugin(&plugin("e5m2.so"));
    let mut list = bench.distrustful(&["formats", "list", "--plugins", "plugins"]);
    let listed = outcome(list.env("ALTGRAD_MISBEHAVE", "ties"));
    assert_eq!(listed.code, 3, "{}{}", listed.stdout, listed.stderr);
    assert!(listed.stdout.contains("E5M2") && !listed.stdout.contains("BAD2"), "{}", listed.stdout);
    let said = "format plugin `BAD2` fails a check: ";
    assert!(listed.stderr.contains(said), "{}", listed.stderr);
    // There is no run file to change.
    assert!(!listed.stderr.contains("plugins.check"), "{}", listed.stderr);
}
