//! Damaged libraries: no run that does not use one is affected, and no command ends without a message.

use std::{collections::BTreeMap, fs};

use altgrad_end_to_end::{Bench, Random, TINY, compile_c_with, plugin, root, skipped};

/// Libraries in a folder at a time.
const AT_ONCE: usize = 20;

/// A library with one bit changed.
fn flipped(sound: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let bit = (random.bits() >> 20) as usize % (8 * bytes.len());
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

/// Sound libraries to damage: one with notes, and one without if there is a C compiler.
fn sound(test: &str, bench: &Bench) -> Vec<Vec<u8>> {
    let mut libraries = vec![fs::read(plugin("e3m4.so")).unwrap()];
    let source = root().join("tests/fixtures/misbehaver/c/misbehaver.c");
    match compile_c_with(&source, &bench.path("c.so"), &[]) {
        Ok(()) => libraries.push(fs::read(bench.path("c.so")).unwrap()),
        Err(why) => skipped(test, &why),
    }
    libraries
}

/// A bench whose run uses E5M2 and AdamW of its own folder.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.add_plugin(&plugin("e5m2.so"));
    bench.add_plugin(&plugin("adamw.so"));
    bench.write("tiny.toml", &format!("{TINY}[plugins]\ndir = \"plugins\"\n"));
    bench
}

/// Puts `count` damaged libraries beside those of a run that does not use them.
fn beside_a_run(test: &str, count: usize) {
    let (bench, mut random) = (bench(), Random::seeded(1));
    let sound = sound(test, &bench);
    let expected = bench.host(&["check", "tiny.toml"]);
    assert_eq!(expected.code, 0, "{}", expected.stderr);
    for round in 0..count.div_ceil(AT_ONCE) {
        for i in 0..AT_ONCE {
            let damaged = flipped(&sound[i % sound.len()], &mut random);
            fs::write(bench.path(&format!("plugins/x{i}.so")), damaged).unwrap();
        }
        let outcome = bench.host(&["check", "tiny.toml"]);
        // The lines about the run; those after them are measured.
        let said = [&outcome, &expected].map(|outcome| outcome.stdout.lines().take(3).collect::<Vec<_>>());
        assert_eq!((outcome.code, &said[0]), (0, &said[1]), "{round}: {}", outcome.stderr);
        let lines = outcome.stderr.lines().count();
        assert!(
            lines <= AT_ONCE && outcome.stderr.lines().all(|line| line.contains("/x")),
            "{}",
            outcome.stderr
        );
        let listed = bench.host(&["plugins", "list", "--dir", "plugins"]);
        assert!(listed.stdout.contains("E5M2") && [0, 3].contains(&listed.code), "{}", listed.stderr);
        assert_eq!(listed.code == 3, listed.stderr.contains("error: "), "{}", listed.stderr);
    }
}

/// Damages the format that a run uses: the count of each outcome, by the words of its message.
fn in_a_run(count: usize) -> BTreeMap<&'static str, usize> {
    const OUTCOMES: [&str; 6] =
        ["SIGSEGV", "SIGBUS", "SIGILL", "hung", "fails a check", "plugin library refused"];
    let (bench, mut random, mut outcomes) = (bench(), Random::seeded(2), BTreeMap::new());
    let sound = fs::read(plugin("e5m2.so")).unwrap();
    for round in 0..count {
        fs::write(bench.path("plugins/e5m2.so"), flipped(&sound, &mut random)).unwrap();
        let outcome = bench.host(&["check", "tiny.toml"]);
        let said = &outcome.stderr;
        let kind = match outcome.code {
            0 => "works",
            _ => OUTCOMES.into_iter().find(|words| said.contains(words)).unwrap_or("another message"),
        };
        // A library that crashes only outside of its trial: its signal ends the command, and a line names it.
        let by_signal = outcome.code == -1 && said.contains("error: SIG") && said.contains("plugins/e5m2.so");
        assert!(
            [0, 2, 3].contains(&outcome.code) || by_signal,
            "{round}: exit code {}: {said}",
            outcome.code
        );
        assert!(outcome.code == 0 || said.contains("error: "), "{round}: no message: {said}");
        *outcomes.entry(kind).or_default() += 1;
    }
    outcomes
}

#[test]
fn damaged_libraries_beside_a_run_cost_a_line_each() {
    beside_a_run("damaged_libraries_beside_a_run_cost_a_line_each", 2 * AT_ONCE);
}

/// Libraries without notes that end or stop the process as soon as they are loaded, by the constructor's action.
const DEADLY: [(&str, &str); 4] = [
    ("exit(0)", "ended the process with exit code 0"),
    ("abort()", "crashed, aborted (SIGABRT)"),
    ("static volatile long place = 16; *(volatile char *)place = 0", "crashed, segmentation fault (SIGSEGV)"),
    ("for (;;) pause()", "hung: not done after 10 s"),
];

#[test]
fn files_of_all_kinds_beside_a_run_cost_a_line_each() {
    let test = "files_of_all_kinds_beside_a_run_cost_a_line_each";
    let bench = bench();
    let sound = fs::read(plugin("e3m4.so")).unwrap();
    let mut lines = Vec::new();
    for (name, contents, said) in [
        ("empty.so", &b""[..], "the file is empty"),
        ("text.so", b"#!/bin/sh\n", "the file is not a shared library"),
        ("header.so", &sound[..64], "cut short"),
        ("half.so", &sound[..sound.len() / 2], "cut short"),
    ] {
        fs::write(bench.path("plugins").join(name), contents).unwrap();
        lines.push((name.to_string(), said));
    }
    fs::create_dir(bench.path("plugins/folder.so")).unwrap();
    std::os::unix::fs::symlink("nowhere.so", bench.path("plugins/link.so")).unwrap();
    bench.write(
        "deadly.c",
        "#include <stdlib.h>\n#include <unistd.h>\n\
        __attribute__((constructor)) static void loaded(void) { DO; }\n",
    );
    for (i, (what, said)) in DEADLY.into_iter().enumerate() {
        let name = format!("deadly{i}.so");
        let defines = [format!("DO={what}"), "_GNU_SOURCE".into()];
        let defines: Vec<&str> = defines.iter().map(String::as_str).collect();
        match compile_c_with(&bench.path("deadly.c"), &bench.path("plugins").join(&name), &defines) {
            Ok(()) => lines.push((name, said)),
            Err(why) => skipped(test, &why),
        }
    }
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for (name, said) in &lines {
        let line = outcome.stderr.lines().find(|line| line.contains(name.as_str())).unwrap_or_default();
        assert!(line.contains(said), "{name}: {}", outcome.stderr);
    }
    let listed = bench.host(&["plugins", "list", "--dir", "plugins"]);
    assert!(listed.code == 3 && listed.stdout.contains("E5M2"), "{}", listed.stderr);
    assert_eq!(
        listed.stderr.matches("error: plugin library refused: ").count(),
        lines.len(),
        "{}",
        listed.stderr
    );
}

#[test]
fn a_damaged_library_in_a_run_is_refused_in_words() {
    in_a_run(12);
}

/// Minutes: `cargo xtask test --test plugins -- --ignored --nocapture on_demand_thousand`.
#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_thousand_damaged_libraries() {
    beside_a_run("on_demand_thousand_damaged_libraries", 1000);
    println!("beside a run that does not use them: 1000 damaged libraries, no run affected");
    println!("used by the run, by what is said: {:?}", in_a_run(200));
}
