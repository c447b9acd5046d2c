//! `plugins install`: libraries are checked, written whole under the right name, and replace the library of the same
//! plugin if that is asked for.

use std::{fs, path::PathBuf};

use altgrad_end_to_end::{Bench, Outcome, built, compile_c_with, plugin, skipped};

/// A bench with an empty folder of plugins, and a library as cargo leaves it: `libaltgrad_format_e5m2.so`, of that
/// version.
fn bench(version: &str) -> (Bench, PathBuf) {
    let bench = Bench::new();
    fs::create_dir(bench.path("plugins")).unwrap();
    let file = bench.path("libaltgrad_format_e5m2.so");
    write_version(&file, version);
    (bench, file)
}

/// E5M2 with another version in its notes, which are all that is read of it.
fn write_version(file: &PathBuf, version: &str) {
    let mut bytes = fs::read(plugin("e5m2.so")).unwrap();
    let (from, to) = ("\"version\":\"0.1.0\"", format!("\"version\":\"{version}\""));
    assert_eq!(from.len(), to.len());
    let at =
        bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect("a note of this version");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    fs::write(file, bytes).unwrap();
}

fn install(bench: &Bench, files: &[&str]) -> Outcome {
    bench.host(&[&["plugins", "install", "--dir", "plugins"], files].concat())
}

/// Names in the folder of plugins: nothing temporary stays.
fn folder(bench: &Bench) -> Vec<String> {
    let entries = fs::read_dir(bench.path("plugins")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn sha256(bench: &Bench, file: &str) -> String {
    let said = bench.host(&["plugins", "inspect", file]).stdout;
    said.lines().find_map(|line| line.strip_prefix("sha256 ")).unwrap().trim().to_string()
}

#[test]
fn an_installed_library_is_listed_and_another_version_replaces_it() {
    let (bench, file) = bench("0.1.0");
    let old = sha256(&bench, "libaltgrad_format_e5m2.so");
    let first = install(&bench, &["libaltgrad_format_e5m2.so"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let said = format!("e5m2.so: installed format E5M2 0.1.0, sha256 {old}\n");
    assert!(first.stdout.ends_with(&said), "{}", first.stdout);
    assert_eq!(folder(&bench), ["e5m2.so"]);
    let listed = bench.host(&["plugins", "list", "--dir", "plugins"]);
    assert!(listed.code == 0 && listed.stdout.contains("E5M2"), "{}{}", listed.stdout, listed.stderr);

    let again = install(&bench, &["libaltgrad_format_e5m2.so"]);
    assert!(again.code == 0 && again.stdout.contains("e5m2.so: already there, "), "{}", again.stdout);

    // The path is that of the same plugin, independent of the file's name.
    fs::rename(bench.path("plugins/e5m2.so"), bench.path("plugins/mine.so")).unwrap();
    write_version(&file, "0.1.1");
    let new = sha256(&bench, "libaltgrad_format_e5m2.so");
    let asked = install(&bench, &["libaltgrad_format_e5m2.so"]);
    assert_eq!(asked.code, 2, "{}", asked.stderr);
    let said = format!("it would replace format E5M2 0.1.0, sha256 {old}\n");
    assert!(asked.stderr.contains(&said) && asked.stderr.contains("`--replace`"), "{}", asked.stderr);
    assert_eq!(folder(&bench), ["mine.so"]);
    let second = install(&bench, &["libaltgrad_format_e5m2.so", "--replace"]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    let said = format!(
        "mine.so: installed format E5M2 0.1.1, sha256 {new}\n  replaced format E5M2 0.1.0, sha256 {old}\n  it is kept as "
    );
    assert!(second.stdout.contains(&said), "{}", second.stdout);
    assert!(second.stdout.ends_with("plugins/mine.so.replaced\n"), "{}", second.stdout);
    assert_eq!(folder(&bench), ["mine.so", "mine.so.replaced"]);
    assert_eq!(fs::read(bench.path("plugins/mine.so")).unwrap(), fs::read(&file).unwrap());

    // The first one is kept, not each build after it; and no command takes it for a library.
    write_version(&file, "0.1.2");
    let third = install(&bench, &["libaltgrad_format_e5m2.so", "--replace"]);
    assert!(third.stdout.contains("an earlier one stays kept as "), "{}{}", third.stdout, third.stderr);
    assert_eq!(sha256(&bench, "plugins/mine.so.replaced"), old);
    let listed = bench.host(&["plugins", "list", "--dir", "plugins"]);
    assert_eq!(listed.stdout.matches("E5M2").count(), 1, "{}", listed.stdout);
}

#[test]
fn what_is_no_plugin_is_refused_and_nothing_is_written() {
    let (bench, file) = bench("0.1.0");
    let bytes = fs::read(&file).unwrap();
    fs::write(bench.path("cut.so"), &bytes[..bytes.len() / 2]).unwrap();
    bench.write("text.so", "# just text\n");
    for (bad, message) in
        [("cut.so", "cut short"), ("text.so", "not a shared library"), ("gone.so", "cannot be read")]
    {
        let outcome = install(&bench, &["libaltgrad_format_e5m2.so", bad]);
        assert_eq!(outcome.code, 3, "{bad}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message) && outcome.stderr.contains(bad), "{}", outcome.stderr);
        assert_eq!(folder(&bench), [""; 0], "{bad}");
    }
    // A damaged library in the folder is no reason to refuse its successor.
    fs::copy(bench.path("cut.so"), bench.path("plugins/e5m2.so")).unwrap();
    let outcome = install(&bench, &["libaltgrad_format_e5m2.so"]);
    assert!(
        outcome.code == 2 && outcome.stderr.contains("would replace a file that is no"),
        "{}",
        outcome.stderr
    );
    let outcome = install(&bench, &["libaltgrad_format_e5m2.so", "--replace"]);
    assert!(outcome.code == 0 && outcome.stdout.contains("replaced a file that is no"), "{}", outcome.stdout);
}

#[test]
fn names_and_folders_that_cannot_be_meant_are_refused() {
    let (bench, file) = bench("0.1.0");
    let refused = |outcome: &Outcome, message: &str| {
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
    };
    fs::copy(&file, bench.path("e5m2.so.1")).unwrap();
    refused(&install(&bench, &["e5m2.so.1"]), "does not end in `.so`");
    refused(&install(&bench, &["libaltgrad_format_e5m2.so", "e5m2.so.1"]), "the same plugin");
    refused(&bench.host(&["plugins", "install", "e5m2.so.1", "--dir", "gone"]), "does not exist");
    fs::copy(plugin("adamw.so"), bench.path("plugins/e5m2.so")).unwrap();
    refused(&install(&bench, &["libaltgrad_format_e5m2.so"]), "e5m2.so has other plugins: optimizer adamw ");
    assert_eq!(folder(&bench), ["e5m2.so"]);
}

#[test]
fn a_library_that_fails_its_checks_is_not_installed_if_they_were_asked_for() {
    let (bench, _) = bench("0.1.0");
    let library = built("libaltgrad_fixture_panicker.so");
    let path = library.display().to_string();
    let args = ["plugins", "install", &path, "--dir", "plugins", "--check"];
    let failed = bench.host_with(&args, &[("ALTGRAD_PANIC_IN", "format.fake_quant")]);
    assert_eq!(failed.code, 3, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stdout.contains("FAILED: "), "{}", failed.stdout);
    assert!(failed.stderr.contains("the library failed checks and was not installed"), "{}", failed.stderr);
    assert_eq!(folder(&bench), [""; 0]);
    let example = built("libaltgrad_example_int8.so").display().to_string();
    let passed = bench.host(&["plugins", "install", &example, "--dir", "plugins", "--check"]);
    assert_eq!(passed.code, 0, "{}{}", passed.stdout, passed.stderr);
    assert!(passed.stdout.contains(" 0 failed") && passed.stdout.contains("installed format INT8-RUST "));
    assert_eq!(folder(&bench), ["libaltgrad_example_int8.so"]);
}

/// A format that puts another build in the place of its library when it is loaded.
const CHAMELEON: &str = r#"
#include "altgrad_plugin.h"
#include <stdio.h>
static const float values[4] = {0.0f, 1.0f, -2.0f, -1.0f};
static const altgrad_format_v1 int2 = {
    .struct_size = sizeof(altgrad_format_v1), .spec = ALTGRAD_SPEC_TABLE, .id = "INT2", .version = "1.0.0",
    .summary = "-2 to 1", .bits = 2, ALTGRAD_VALUES(values),
};
ALTGRAD_DESCRIBE_FORMAT("INT2", "1.0.0", "-2 to 1");
ALTGRAD_EXPORT_FORMATS(&int2);
#ifdef OTHER
__attribute__((constructor)) static void loaded(void) {
    rename(OTHER, SELF);
}
#endif
"#;

#[test]
fn the_installed_bytes_are_those_that_were_checked() {
    let bench = Bench::new();
    fs::create_dir(bench.path("plugins")).unwrap();
    bench.write("int2.c", CHAMELEON);
    let define = |name: &str, file: &str| format!("{name}=\"{}\"", bench.path(file).display());
    let (other, own) = (define("OTHER", "other.so"), define("SELF", "int2.so"));
    let builds: [(&str, &[&str]); 2] = [("other.so", &[]), ("int2.so", &[other.as_str(), own.as_str()])];
    for (file, defines) in builds {
        if let Err(why) = compile_c_with(&bench.path("int2.c"), &bench.path(file), defines) {
            return skipped("the_installed_bytes_are_those_that_were_checked", &why);
        }
    }
    let outcome = install(&bench, &["int2.so", "--check"]);
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("its file changed while the command ran"), "{}", outcome.stdout);
    assert_eq!(folder(&bench), [""; 0]);
}
