//! The examples of formats whose blocks have tables, zero points or magnitudes of their own: each passes the suite,
//! trains, and resumes with identical bits. Options are in the names of formats.

use altgrad_end_to_end::{Bench, TINY, assert_same_run, built, compile_c, plugin, skipped};

/// Steps of a run; half of them before the checkpoint.
const STEPS: u64 = 50;

/// A bench with a library, and a run file that rounds the operands of linear layers to a format in blocks of 16.
fn bench_of(library: &std::path::Path, format: &str) -> Bench {
    let bench = Bench::new();
    for library in [library, &plugin("csv.so"), &plugin("adamw.so"), &plugin("e4m3.so")] {
        bench.add_plugin(library);
    }
    bench.write("run.toml", &run_file(format));
    bench
}

fn run_file(format: &str) -> String {
    let quant = format!("weight = \"{format}\"\nactivation = \"{format}\"\nblock = 16");
    let file =
        TINY.replace("max_steps = 6", &format!("max_steps = {STEPS}")).replace("weight = \"E5M2\"", &quant);
    format!("{file}[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n")
}

fn run(bench: &Bench, args: &[&str]) {
    let outcome = bench.host(&[&["run", "run.toml", "--quiet"], args].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
}

/// Trains in one piece and in two, which must be identical; returns the first and the last loss.
fn trained(bench: &Bench, name: &str) -> [f64; 2] {
    let [whole, parts] = ["whole", "parts"].map(|run| format!("{name}-{run}"));
    run(bench, &["--out", &whole]);
    run(bench, &["--out", &parts, "--max-steps", &(STEPS / 2).to_string()]);
    run(bench, &["--out", &parts, "--resume"]);
    assert_same_run(bench, &whole, &parts);
    let losses = &bench.metrics(&whole)["train/loss"];
    let loss = |text: Option<&String>| text.unwrap().parse::<f64>().unwrap();
    [loss(losses.first()), loss(losses.iter().rev().find(|text| !text.is_empty()))]
}

#[test]
#[ignore = "--all: the whole suite on each example"]
fn each_example_passes_the_suite_trains_and_resumes() {
    for (library, formats) in [
        ("intz", ["INTZ", "INTZ:bits=8", "INTZ:bits=5,zero_point=false"]),
        ("codebooks", ["CODEBOOK4", "CODEBOOK4:tables=1,deviations=2.5", "CODEBOOK4:deviations=3"]),
    ] {
        let library = built(&format!("libaltgrad_example_{library}.so"));
        let bench = bench_of(&library, formats[0]);
        let outcome = bench.host(&["plugins", "check", &library.display().to_string()]);
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        for (index, format) in formats.into_iter().enumerate() {
            bench.write("run.toml", &run_file(format));
            let [first, last] = trained(&bench, &index.to_string());
            assert!(last < first - 0.1, "{format}: {first} -> {last}");
        }
    }
}

/// Activations of one sign have half the step, so that more of their signal is kept.
#[test]
fn zero_points_keep_more_of_a_tensor_of_one_sign() {
    let bench = bench_of(&built("libaltgrad_example_intz.so"), "INTZ");
    let mut values = Vec::new();
    for i in 0..1024u32 {
        values.extend_from_slice(&(1.0 + (i * 37 % 101) as f32 / 100.0).to_le_bytes());
    }
    std::fs::write(bench.path("x.f32"), &values).unwrap();
    let error = |format: &str| {
        let cast = format!("format = \"{format}\", block = 16");
        let args =
            ["casts", "apply", "--plugins", "plugins", "--cast", &cast, "--shape", "64,16", "--axis", "rows"];
        let outcome = bench.host(&[&args[..], &["--input", "x.f32", "--output", "y.f32"]].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let found = std::fs::read(bench.path("y.f32")).unwrap();
        let number = |bytes: &[u8]| f64::from(f32::from_le_bytes(bytes.try_into().unwrap()));
        let pairs = values.chunks(4).zip(found.chunks(4));
        pairs.map(|(x, y)| (number(x) - number(y)).powi(2)).sum::<f64>()
    };
    let [with, without] = ["INTZ", "INTZ:zero_point=false"].map(error);
    // Half the step: a quarter of the squares.
    assert!((0.2..0.3).contains(&(with / without)), "{with} of {without}");
}

#[test]
fn a_format_with_options_in_c_equals_its_rust_twin() {
    let bench = bench_of(&built("libaltgrad_example_intz.so"), "INTZ:bits=3");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/format-c/intz.c");
    if let Err(why) = compile_c(&source, &bench.path("plugins/intz-c.so")) {
        return skipped("a_format_with_options_in_c_equals_its_rust_twin", &why);
    }
    let outcome = bench.host(&["plugins", "check", "plugins/intz-c.so"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    run(&bench, &["--out", "rust"]);
    bench.write("run.toml", &run_file("INTZ-C:bits=3"));
    let [first, last] = trained(&bench, "c");
    assert!(last < first - 0.1, "{first} -> {last}");
    let weights = |run: &str| std::fs::read(bench.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("rust") == weights("c-whole"), "other bits");
}

#[test]
fn tables_in_a_file_are_those_of_the_example() {
    let bench = bench_of(&built("libaltgrad_example_intz.so"), "INTZ:bits=2");
    let file = "[[format]]\nname = \"ZERO2\"\nvalues = [-2, -1, 0, 1]\nzero_points = [-2, -1, 1]\n";
    bench.write("plugins/zero2.toml", file);
    run(&bench, &["--out", "library"]);
    bench.write("run.toml", &run_file("ZERO2"));
    run(&bench, &["--out", "file"]);
    let weights = |run: &str| std::fs::read(bench.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("library") == weights("file"), "other bits");
    // Tables of one zero point each, in full.
    let tables = "codebooks = [[0, 1, 2, 3], [-1, 0, 1, 2], [-3, -2, -1, 0]]\nchoice = \"largest-scale\"\n";
    bench.write("plugins/zero2.toml", &file.replace("zero_points = [-2, -1, 1]\n", tables));
    run(&bench, &["--out", "tables"]);
    assert!(weights("library") == weights("tables"), "other bits");
}

#[test]
fn names_and_casts_that_such_formats_do_not_have_are_refused() {
    let bench = bench_of(&built("libaltgrad_example_intz.so"), "INTZ");
    let refused = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["check", "run.toml"].into_iter().chain(sets).collect();
        let outcome = bench.host(&args);
        assert_ne!(outcome.code, 0, "{args:?}");
        outcome.stdout + &outcome.stderr
    };
    for (sets, expected) in [
        (&["quant.weight=INTZ:bits=9"][..], "INTZ bits must be between 2 and 8, found 9"),
        (&["quant.weight=INTZ:width=4"], "INTZ has no option `width`"),
        (&["quant.weight=INTZ:bits=4,bits=5"], "INTZ bits is given twice"),
        (&["quant.master_weights=none"], "chooses tables or magnitudes of blocks"),
        (&["quant.ste=clipped"], "excludes ste = \"clipped\""),
        (&["quant.scaling.type=e4m3", "quant.scaling.tensor=f32"], "scaling.tensor` does not combine"),
    ] {
        let said = refused(sets);
        assert!(said.contains(expected), "{sets:?}: {said}");
    }
}
