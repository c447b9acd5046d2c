//! Libraries built against other versions of plugin-api: 1.0.0, an older and a later minor version, and those that must be refused.
//!
//! All come from the frozen source in `tests/fixtures/api-1.0.0`, built by cargo outside the workspace; what is not 1.0.0 is made
//! from it by replacing a few lines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use altgrad_end_to_end::{Bench, Outcome, TINY, stage};

/// A change of one file of the frozen source.
enum Change {
    /// A text by another.
    Replace(&'static str, &'static str, &'static str),
    /// What stands from the first text up to the second, which stays.
    Cut(&'static str, &'static str, &'static str),
}
use Change::{Cut, Replace};

const MANIFEST: &str = "plugin-api/Cargo.toml";
const OBJECTS: &str = "plugin-api/src/abi/objects.rs";
const VERSION: &str = "version = \"1.0.0\"";

/// What a host newer than the library has more: the last method of an interface is missing in the library.
const OLDER: [Change; 2] = [
    Cut(OBJECTS, "    /// None in libraries built before", "}\n\n/// Tensors the plugin computes with"),
    Cut("plugin-api/src/abi/adapters.rs", "    fn launches(", "}\n\nimpl<T: Sink> SinkAbi"),
];

/// A method at the end of an interface, with the default that the adapters of the frozen source have.
macro_rules! grown {
    ($end:literal) => {
        concat!("    /// New.\n    fn later(&self, value: f64) -> RResult<f64, PluginError> {\n        RResult::ROk(value)\n    }\n", $end)
    };
}

/// What a library newer than the host has more: a function of the root module, and a method of each object.
const LATER: [Change; 7] = [
    Replace(MANIFEST, VERSION, "version = \"1.9.0\""),
    Replace(
        "plugin-api/src/abi/mod.rs",
        "ROption<&'static Extension>,\n",
        "ROption<&'static Extension>,\n    /// New.\n    pub later: extern \"C\" fn() -> u64,\n",
    ),
    Replace("plugin-api/src/export.rs", "make_sink, get_extension }", "make_sink, get_extension, later }"),
    Replace(
        "plugin-api/src/export.rs",
        "extern \"C\" fn get_extension",
        "extern \"C\" fn later() -> u64 {\n    9\n}\n\nextern \"C\" fn get_extension",
    ),
    Replace(
        OBJECTS,
        "}\n\n#[sabi_trait]\npub trait OptimizerAbi",
        grown!("}\n\n#[sabi_trait]\npub trait OptimizerAbi"),
    ),
    Replace(
        OBJECTS,
        "}\n\n/// Tensors the plugin computes with",
        grown!("}\n\n/// Tensors the plugin computes with"),
    ),
    Replace(
        OBJECTS,
        "}\n\n/// An instance of a format, owned",
        grown!("}\n\n/// An instance of a format, owned"),
    ),
];

/// The next major version, which may be anything.
const MAJOR: [Change; 1] = [Replace(MANIFEST, VERSION, "version = \"2.0.0\"")];

/// A version that claims to be compatible and is not: a structure that crosses by value has grown.
const BROKEN: [Change; 2] = [
    Replace(MANIFEST, VERSION, "version = \"1.2.0\""),
    Replace(
        "plugin-api/src/format.rs",
        "    pub sum_x_xhat: f64,\n",
        "    pub sum_x_xhat: f64,\n    /// New.\n    pub more: f64,\n",
    ),
];

impl Change {
    fn apply(&self, folder: &Path) {
        let (Replace(file, from, _) | Cut(file, from, _)) = self;
        let path = folder.join(file);
        let text = fs::read_to_string(&path).unwrap();
        let start = text.find(from).unwrap_or_else(|| panic!("{file} has no {from:?}"));
        let (rest, new) = match self {
            Replace(_, from, to) => (&text[start + from.len()..], *to),
            Cut(_, _, to) => (&text[start + text[start..].find(to).unwrap()..], ""),
        };
        fs::write(&path, [&text[..start], new, rest].concat()).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The fixture's library against the frozen API with some changes.
fn library(name: &str, changes: &[Change]) -> PathBuf {
    let builds = stage().parent().unwrap().join("api-versions");
    let folder = builds.join(name);
    let _ = fs::remove_dir_all(&folder);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/api-1.0.0"), &folder);
    for change in changes {
        change.apply(&folder);
    }
    // One target folder, so that what they all depend on is built once; and one at a time, for the libraries are of one name.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--target-dir"]).arg(builds.join("target")).current_dir(&folder);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let library = builds.join(format!("{name}.so"));
    let _ = fs::remove_file(&library);
    fs::copy(builds.join("target/debug/libaltgrad_fixture_frozen.so"), &library).unwrap();
    library
}

/// A run that uses the library's format, optimizer and sink to its end.
fn trains(name: &str, changes: &[Change], version: &str) {
    let bench = Bench::new();
    let path = bench.add_plugin(&library(name, changes)).display().to_string();
    let inspected = bench.host(&["plugins", "inspect", &path]);
    assert_eq!(inspected.code, 0, "{}", inspected.stderr);
    assert!(inspected.stdout.contains(&format!("plugin-api    {version}\n")), "{}", inspected.stdout);
    let run = TINY.replace("adamw", "frozen-descent").replace("E5M2", "FROZEN2");
    bench.write(
        "run.toml",
        &format!("{run}\n[[sink]]\nname = \"frozen-lines\"\n[plugins]\ndir = \"plugins\"\n"),
    );
    let outcome = bench.host(&["run", "run.toml", "--out", "out", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let written = bench.read("out/frozen.txt");
    assert!(written.lines().count() == 7 && written.ends_with("Completed\n"), "{written}");
    let checked = bench.host(&["plugins", "check", &path, "--only", "s"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
}

/// What the host says of a library it must not load: one sentence and a hint.
fn refused(name: &str, changes: &[Change]) -> Outcome {
    let bench = Bench::new();
    let path = bench.add_plugin(&library(name, changes)).display().to_string();
    let outcome = bench.host(&["plugins", "inspect", &path]);
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.lines().count() < 6, "one sentence, not a report:\n{}", outcome.stderr);
    outcome
}

#[test]
fn a_library_of_1_0_0_loads_and_trains() {
    trains("frozen", &[], "1.0.0");
}

#[test]
fn a_library_that_lacks_the_latest_method_loads_and_trains() {
    trains("older", &OLDER, "1.0.0");
}

#[test]
fn a_library_of_a_later_minor_version_loads_and_trains() {
    trains("later", &LATER, "1.9.0");
}

#[test]
fn a_library_of_2_0_is_refused_in_one_sentence() {
    let outcome = refused("major", &MAJOR);
    let expected = "error: plugin library refused: it was built against plugin-api 2.0.0, this host has 1.";
    assert!(outcome.stderr.starts_with(expected), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("rebuild it against plugin-api 1."), "{}", outcome.stderr);
}

#[test]
fn a_library_whose_structures_have_grown_is_refused_in_one_sentence() {
    let outcome = refused("broken", &BROKEN);
    let first = outcome.stderr.lines().next().unwrap();
    assert!(first.contains("its types differ from the host's at `QuantStats"), "{first}");
    let report = outcome.stderr.split("full report in ").nth(1).unwrap().trim();
    fs::remove_file(report).unwrap();
}
