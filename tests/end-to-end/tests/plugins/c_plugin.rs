//! Formats in C: the header compiles everywhere, the example trains and passes the suite, invalid tables are refused,
//! and misbehaviour is named and survived.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use altgrad_end_to_end::{Bench, Outcome, TINY, built, compile_c_with, plugin, skipped};
use insta::assert_snapshot;

const EXAMPLE: &str = "../../examples/format-c/int8.c";
const MISBEHAVER: &str = "../fixtures/misbehaver/c/misbehaver.c";

/// A bench and in it a library made from a source of the project; `None`, with a message, without a C compiler.
fn compiled(test: &str, source: &str, defines: &[&str]) -> Option<(Bench, PathBuf)> {
    let bench = Bench::new();
    let library = bench.path("plugins/c.so");
    fs::create_dir_all(bench.path("plugins")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    match compile_c_with(&source, &library, defines) {
        Ok(()) => Some((bench, library)),
        Err(why) => {
            skipped(test, &why);
            None
        }
    }
}

#[test]
fn the_header_compiles_as_c11_and_as_cpp17_without_a_warning() {
    let test = "the_header_compiles_as_c11_and_as_cpp17_without_a_warning";
    let text = "#include \"altgrad_plugin.h\"\n\
        static const float values[4] = {0.0f, 1.0f, -2.0f, -1.0f};\n\
        static const altgrad_format_v1 int2 = {sizeof(altgrad_format_v1), ALTGRAD_SPEC_TABLE, \"INT2\", \"1.0.0\", \"-2 to 1\",\n\
            {0, 0, 0, 0}, 2, 0, values, NULL, NULL, NULL, NULL, 0.0f, 0, NULL, 4, 0, NULL, NULL,\n\
            0, 0, NULL, NULL};\n\
        ALTGRAD_DESCRIBE_FORMAT(\"INT2\", \"1.0.0\", \"-2 to 1\");\n\
        ALTGRAD_EXPORT_FORMATS(&int2);\n";
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-api/include");
    for (compiler, standard, source) in [("cc", "-std=c11", "int2.c"), ("c++", "-std=c++17", "int2.cpp")] {
        let bench = Bench::new();
        bench.write(source, text);
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-o"]);
        command.arg(bench.path("int2.so")).arg("-I").arg(&include).arg(bench.path(source));
        let Ok(output) = command.output() else {
            skipped(test, &format!("{compiler} cannot be started"));
            continue;
        };
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        // And it is a format: values alone are enough.
        let outcome = bench.host(&["plugins", "check", "int2.so"]);
        assert_eq!(outcome.code, 0, "{compiler}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("nearest_away_edges       ok"), "{}", outcome.stdout);
    }
}

#[test]
fn the_example_passes_the_suite_and_says_what_built_it() {
    let Some((bench, library)) = compiled("the_example_passes_the_suite", EXAMPLE, &[]) else { return };
    let path = library.display().to_string();
    let outcome = bench.host(&["plugins", "check", &path]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("kernels                  ok"), "{}", outcome.stdout);
    let inspected = bench.host(&["plugins", "inspect", &path]).stdout;
    assert!(
        inspected.contains("plugin-api    C 0.1\n") && inspected.contains("format INT8-C 1.0.0"),
        "{inspected}"
    );
    assert!(!inspected.contains("CPU features  unknown"), "{inspected}");
    let compiler = inspected.lines().find(|line| line.starts_with("compiler")).unwrap();
    assert!(compiler.contains("gcc ") || compiler.contains("clang "), "{compiler}");
}

/// A run with the example is bit-identical to the run with its twin in Rust.
#[test]
fn a_run_with_the_example_equals_the_run_with_its_rust_twin() {
    let Some((bench, _)) = compiled("a_run_with_the_example_equals_the_run_with_its_rust_twin", EXAMPLE, &[])
    else {
        return;
    };
    bench.add_plugin(&built("libaltgrad_example_int8.so"));
    bench.add_plugin(&plugin("adamw.so"));
    bench.add_plugin(&plugin("csv.so"));
    for (name, format) in [("c", "INT8-C"), ("rust", "INT8-RUST")] {
        let run = TINY.replace(
            "weight = \"E5M2\"",
            &format!("weight = \"{format}\"\nactivation = \"{format}\"\ngrad = \"{format}\""),
        );
        bench.write(
            &format!("{name}.toml"),
            &format!("{run}\n[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n"),
        );
        let outcome = bench.host(&["run", &format!("{name}.toml"), "--out", name, "--quiet"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    for file in ["metrics.csv", "layers.csv", "weights.safetensors"] {
        let bytes = |run: &str| fs::read(bench.path(run).join(file)).unwrap();
        assert!(bytes("c") == bytes("rust"), "{file} differs");
    }
}

#[test]
fn each_fault_of_a_table_in_c_is_refused_in_a_sentence() {
    let tables: [&[&str]; 9] = [
        &["MAGIC=1"],
        &["MAJOR=2"],
        &["SIZE=8"],
        &["FORMATS=99999"],
        &["NO_ID"],
        &["BITS=17"],
        &["NO_VALUES"],
        // Read past its end without the count.
        &["BITS=5"],
        &["VALUE_COUNT=0"],
    ];
    let mut page = String::new();
    for defines in tables {
        let test = "each_fault_of_a_table_in_c_is_refused_in_a_sentence";
        let Some((bench, library)) = compiled(test, MISBEHAVER, defines) else { return };
        let outcome = bench.host(&["plugins", "inspect", &library.display().to_string()]);
        assert_eq!(outcome.code, 3, "{defines:?}: {}{}", outcome.stdout, outcome.stderr);
        page += &format!("=== {}\n{}\n", defines.join(" "), bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("c_table_faults", page);
}

/// Its values are read as before, without their count.
#[test]
fn a_table_of_an_earlier_header_is_read() {
    let test = "a_table_of_an_earlier_header_is_read";
    let Some((bench, library)) = compiled(test, MISBEHAVER, &["OLD", "VALUE_COUNT=0"]) else { return };
    let path = library.display().to_string();
    let outcome = bench.host(&["plugins", "check", &path, "--only", "decode_codes"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

/// A truncated library is refused before the loader sees it, and pins are checked first, as for other libraries.
#[test]
fn symbols_truncation_and_pins_are_checked_for_c_too() {
    let Some((bench, library)) = compiled("symbols_truncation_and_pins_are_checked_for_c_too", EXAMPLE, &[])
    else {
        return;
    };
    let path = bench.path("nothing.so");
    bench.write("nothing.c", "int nothing(void);\nint nothing(void) { return 1; }\n");
    compile_c_with(&bench.path("nothing.c"), &path, &[]).unwrap();
    let nothing = bench.host(&["plugins", "inspect", "nothing.so"]);
    assert!(nothing.code == 3 && nothing.stderr.contains("it exports no plugin"), "{}", nothing.stderr);
    bench.write("needs.c", "int needs(void);\nint missing(void);\nint needs(void) { return missing(); }\n");
    compile_c_with(&bench.path("needs.c"), &bench.path("needs.so"), &[]).unwrap();
    let needs = bench.host(&["plugins", "inspect", "needs.so"]);
    assert!(needs.code == 3 && needs.stderr.contains("undefined symbol: missing"), "{}", needs.stderr);
    let bytes = fs::read(&library).unwrap();
    fs::write(bench.path("cut.so"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = bench.host(&["plugins", "inspect", "cut.so"]);
    assert!(cut.code == 3 && cut.stderr.contains("the library is cut short"), "{}", cut.stderr);
    let pin = "0".repeat(64);
    let load = format!("\n[plugins]\nload = [ {{ path = \"plugins/c.so\", sha256 = \"{pin}\" }} ]\n");
    bench.write("run.toml", &format!("{TINY}{load}"));
    let pinned = bench.host(&["run", "run.toml"]);
    assert!(pinned.code == 3 && pinned.stderr.contains("its sha256 is not the pinned"), "{}", pinned.stderr);
}

fn check(bench: &Bench, library: &Path, only: &str, misbehave: &str) -> Outcome {
    let path = library.display().to_string();
    let args = ["plugins", "check", &path, "--timeout-s", "3", "--only", only];
    bench.host_with(&args, &[("ALTGRAD_MISBEHAVE", misbehave)])
}

#[test]
fn misbehaviour_in_c_is_named_and_survived() {
    let Some((bench, library)) = compiled("misbehaviour_in_c_is_named_and_survived", MISBEHAVER, &[]) else {
        return;
    };
    let sound = bench.host(&["plugins", "check", &library.display().to_string()]);
    assert_eq!(sound.code, 0, "{}{}", sound.stdout, sound.stderr);
    let rows = [
        ("exit-at-load", "load", "ended the process with exit code 0, before the check was done"),
        ("segfault", "special_values", "crashed, segmentation fault (SIGSEGV), before the check was done"),
        ("abort", "special_values", "crashed, aborted (SIGABRT), before the check was done"),
        ("exit", "special_values", "ended the process with exit code 0, before the check was done"),
        ("hang", "special_values", "hung: not done after 3 s"),
        ("print", "special_values", "wrote to standard output: \"look at me\\n"),
        ("beyond", "shapes", "memory beside a destination of"),
        ("leak", "leaks", "bytes of memory each time it is made, used and dropped"),
        ("files", "leaks", "open files each time it is made, used and dropped"),
        ("locale", "locale", "depends on the locale: its results differ with LC_"),
        ("sets-locale", "locale", "depends on the locale: its results differ with LC_"),
        ("rounds-up", "special_values", "left the processor rounding in another direction than to nearest"),
        ("flushes", "special_values", "left the processor flushing subnormal numbers to zero"),
        ("chdir", "special_values", "changed the working directory to `/`"),
        ("setenv", "special_values", "changed the variable `ALTGRAD_SEEN` of the environment"),
        ("signal", "special_values", "changed what the process does on signal 15"),
        ("blocks", "special_values", "changed which signals its thread blocks"),
        ("closes", "special_values", "closed descriptor 3, "),
        ("maps", "leaks", "bytes of mapped memory each time it is made, used and dropped"),
        ("writes-file", "special_values", "left \"notes.txt\" in the working directory"),
        ("home", "environment", "depends on the environment: its results differ with HOME=/nowhere"),
        (
            "reads-behind",
            "memory",
            "in decode of 1 elements, nearest-even, where nothing behind them may be touched",
        ),
        (
            "reads-before",
            "memory",
            "in decode of 1 elements, nearest-even, where nothing before them may be touched",
        ),
        (
            "writes-source",
            "memory",
            "crashed, segmentation fault (SIGSEGV), before the check was done: in decode of",
        ),
    ];
    for (misbehave, name, message) in rows {
        let outcome = check(&bench, &library, name, misbehave);
        assert_eq!(outcome.code, 3, "{misbehave}: {}{}", outcome.stdout, outcome.stderr);
        let line = outcome.stdout.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains("FAILED: ") && line.contains(message), "{misbehave}: {line}");
        let has_replay = outcome.stdout.contains("again: altgrad-host plugins check ");
        assert_eq!(has_replay, name != "load", "{}", outcome.stdout);
    }
}

/// Values that are dense around 1 and far apart above: scaled to the largest one, nearly all of a tensor becomes one of
/// two values.
#[test]
fn a_format_that_tapers_has_to_say_what_it_is_scaled_to() {
    let text = "#include <math.h>\n#include \"altgrad_plugin.h\"\n\
        static const float values[16] = {0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.5f, 64.0f, 4096.0f,\n\
            NAN, -4096.0f, -64.0f, -1.5f, -1.0f, -0.75f, -0.5f, -0.25f};\n\
        static const altgrad_format_v1 format = {\n\
            .struct_size = sizeof(altgrad_format_v1), .spec = ALTGRAD_SPEC_TABLE, .id = \"TAPER\", .version = \"1.0.0\",\n\
            .summary = \"tapers\", .bits = 4, ALTGRAD_VALUES(values), .amax_target = TARGET};\n\
        ALTGRAD_EXPORT_FORMATS(&format);\n";
    for (target, code) in [("0.0f", 3), ("1.5f", 0)] {
        let bench = Bench::new();
        bench.write("taper.c", text);
        let define = format!("TARGET={target}");
        if let Err(why) = compile_c_with(&bench.path("taper.c"), &bench.path("taper.so"), &[&define]) {
            skipped("a_format_that_tapers_has_to_say_what_it_is_scaled_to", &why);
            return;
        }
        let outcome = bench.host(&["plugins", "check", "taper.so", "--only", "scaling_law"]);
        assert_eq!(outcome.code, code, "{target}: {}{}", outcome.stdout, outcome.stderr);
        let found = outcome.stdout.contains(" dB with amax scaled to 4.096e3, and ");
        assert_eq!(found, code != 0, "{target}: {}", outcome.stdout);
    }
}
