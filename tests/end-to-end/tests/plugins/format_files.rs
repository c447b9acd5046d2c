//! Formats as files: they are listed, checked, installed and trained with as libraries are, and malformed ones are
//! refused with line and column.

use std::fs;

use altgrad_end_to_end::{Bench, TINY, plugin, root};
use insta::assert_snapshot;

/// E5M2 under another name, and INT4 as the values of its codes, in JSON.
const E5M2: &str = "[[format]]\nname = \"E5M2-FILE\"\nexponent_bits = 5\nsignificand_bits = 2\nnan = \"ieee\"\ninfinity = \"ieee\"\n";
const INT4: &str = "{\"format\": [{\"name\": \"INT4-FILE\", \"summary\": \"Integers from -7 to 7\",\n\
    \"values\": [0, 1, 2, 3, 4, 5, 6, 7, \"nan\", -7, -6, -5, -4, -3, -2, -1]}]}\n";

fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["adamw.so", "csv.so", "e5m2.so"] {
        bench.add_plugin(&plugin(name));
    }
    bench.write("plugins/e5m2-file.toml", E5M2);
    bench.write("plugins/int4-file.json", INT4);
    bench
}

#[test]
fn formats_of_files_are_listed_and_pass_the_suite() {
    let bench = bench();
    let listed = bench.host(&["formats", "list", "--plugins", "plugins"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(
        listed.stdout.contains("E5M2-FILE") && listed.stdout.contains("Integers from -7 to 7"),
        "{}",
        listed.stdout
    );
    let table = |name: &str| {
        let outcome = bench.host(&["formats", "table", name, "--plugins", "plugins"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stdout.replace(name, "")
    };
    assert_eq!(table("E5M2-FILE"), table("E5M2"));
    for file in ["plugins/e5m2-file.toml", "plugins/int4-file.json"] {
        let outcome = bench.host(&["plugins", "check", file]);
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("nearest_away_edges"), "{}", outcome.stdout);
    }
    let inspected = bench.host(&["plugins", "inspect", "plugins/e5m2-file.toml"]).stdout;
    assert!(inspected.contains("plugin-api    none, a file of formats\n"), "{inspected}");
    fs::create_dir(bench.path("other")).unwrap();
    let installed = bench.host(&["plugins", "install", "plugins/int4-file.json", "--dir", "other"]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert_eq!(fs::read(bench.path("other/int4-file.json")).unwrap(), INT4.as_bytes());
}

/// A file that only the run file names, from another folder: the weights are those of a run with the library, bit for
/// bit.
#[test]
fn a_run_with_a_file_equals_the_run_with_the_library() {
    let bench = bench();
    fs::rename(bench.path("plugins/e5m2-file.toml"), bench.path("e5m2.toml")).unwrap();
    for (name, format, formats) in
        [("file", "E5M2-FILE", "formats = [\"e5m2.toml\"]"), ("library", "E5M2", "")]
    {
        let quant = format!("weight = \"{format}\"\nactivation = \"{format}\"\ngrad = \"{format}\"");
        let run = TINY.replace("weight = \"E5M2\"", &quant);
        bench.write(&format!("{name}.toml"), &format!("{run}\n[plugins]\ndir = \"plugins\"\n{formats}\n"));
        let outcome = bench.host(&["run", &format!("{name}.toml"), "--out", name, "--quiet"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    let weights = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
    assert!(weights("file") == weights("library"));
    assert!(bench.read("file/run.json").contains("format E5M2-FILE 1"));
}

/// The file has no code, so nobody is asked for trust.
#[test]
fn a_file_of_formats_needs_no_trust() {
    let bench = bench();
    let run = TINY.replace("weight = \"E5M2\"", "weight = \"INT4-FILE\"");
    bench.write("run.toml", &format!("{run}\n[plugins]\nformats = [\"plugins/int4-file.json\"]\n"));
    let output = bench.distrustful(&["check", "run.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn malformed_files_are_refused_with_line_and_column() {
    let bench = Bench::new();
    let mut page = String::new();
    for (file, text) in [
        ("a.toml", "[[format]]\nname = \"A\"\nvalues = [0, 1, 2]\n"),
        ("a.toml", "[[format]]\nname = \"A\"\nvalues = [0, 1,\n  \"one\", 2]\n"),
        ("a.toml", "[[format]]\nname = \"A\"\nvalues = [0, 1e40]\n"),
        ("a.toml", "[[format]]\nname = \"A\"\n"),
        ("a.toml", "[[format]]\nname = \"A\"\nvalue = [0, 1]\n"),
        (
            "a.toml",
            "[[format]]\nname = \"A\"\nvalues = [0, 1]\n\n[[format]]\nname = \"B\"\nvalues = [0, 1]\nbias = 3\n",
        ),
        (
            "a.toml",
            "[[format]]\nname = \"A\"\nexponent_bits = 4\nsignificand_bits = 3\nsigned = false\nnan = \"negative-zero\"\n",
        ),
        ("a.toml", "[[format]]\nname = \"A\"\nexponent_bits = 4\nsignificand_bits = 3\nnan = \"quiet\"\n"),
        ("a.toml", "[[format]]\nname = \"A B\"\nvalues = [0, 1]\n"),
        ("a.toml", "[[format]]\nname = \"A\"\nvalues = [0, 1\n"),
        ("a.toml", ""),
        ("a.json", "{\"format\": [\n  {\"name\": \"A\", \"values\": [0, 1, 2]}\n]}\n"),
        ("a.json", "{\"format\": [\n  {\"name\": \"A\", \"values\": [0, NaN]}\n]}\n"),
    ] {
        bench.write(file, text);
        let outcome = bench.host(&["plugins", "inspect", file]);
        assert_eq!(outcome.code, 3, "{text}: {}{}", outcome.stdout, outcome.stderr);
        page += &format!("=== {text}\n{}\n", bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("malformed_format_files", page);
}

/// The largest values that gfloat 0.5.2 has for formats of P3109.
#[test]
fn the_shipped_formats_of_p3109_have_their_ranges() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("plugins")).unwrap();
    fs::copy(root().join("configs/formats/p3109.toml"), bench.path("plugins/p3109.toml")).unwrap();
    for (name, largest) in
        [("Binary8p4se", 224.0), ("Binary8p4sf", 240.0), ("Binary8p3se", 49152.0), ("Binary8p4ue", 53248.0)]
    {
        let outcome = bench.host(&["formats", "table", name, "--json", "--plugins", "plugins"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let table: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let values = table["codes"].as_array().unwrap().iter().filter_map(|code| code["value"].as_f64());
        assert_eq!(values.reduce(f64::max), Some(largest), "{name}");
    }
}
