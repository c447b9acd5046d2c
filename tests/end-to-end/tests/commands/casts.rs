//! `casts apply`: a format's rounding, blocks and scales on raw matrices.

use std::{collections::BTreeSet, fs};

use altgrad_end_to_end::{Bench, Outcome, TINY};
use insta::assert_snapshot;

fn write(bench: &Bench, name: &str, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(bench.path(name), bytes).unwrap();
}

fn read(bench: &Bench, name: &str) -> Vec<f32> {
    let bytes = fs::read(bench.path(name)).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn apply(bench: &Bench, cast: &str, shape: &str, rest: &[&str]) -> Outcome {
    let args =
        ["casts", "apply", "--cast", cast, "--shape", shape, "--input", "in.f32", "--output", "out.f32"];
    bench.host(&[&args, rest].concat())
}

#[test]
fn a_cast_writes_values_codes_and_scales() {
    let bench = Bench::new();
    // Two columns of four; blocks of two run down them. Decode scales of OCP MX: 2^(floor(log2 amax) - 8).
    write(&bench, "in.f32", &[1.0, 500.0, 0.3, -3.0, 0.0, 0.0, -7.0, 0.0]);
    let cast = "format = 'E4M3', block = 2, scaling = { type = 'e8m0', rule = 'floor' }";
    let files = ["--axis", "columns", "--scales", "s.f32", "--scale-codes", "s.u8", "--codes", "c.u8"];
    let outcome = apply(&bench, cast, "4,2", &files);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "8 elements, 2 x 2 scales\n"),
        "{}",
        outcome.stderr
    );
    // 0.3 * 256 = 76.8 goes to 80, one of 72 and 80; 500 saturates at 448; -3 stays.
    assert_eq!(read(&bench, "out.f32"), [1.0, 448.0, 0.3125, -3.0, 0.0, 0.0, -7.0, 0.0]);
    assert_eq!(read(&bench, "s.f32"), [1.0 / 256.0, 1.0, 1.0 / 64.0, 2f32.powi(-127)]);
    assert_eq!(fs::read(bench.path("s.u8")).unwrap(), [119, 127, 121, 0]);
    // 256 = 2^8, 448, 80 = 1.25 * 2^6, -3 = -1.5 * 2, -448 = -1.75 * 2^8.
    assert_eq!(fs::read(bench.path("c.u8")).unwrap(), [0x78, 0x7e, 0x6a, 0xc4, 0, 0, 0xfe, 0]);
}

#[test]
fn two_levels_of_scales_and_random_bits_by_seed() {
    let bench = Bench::new();
    let x: Vec<f32> = (0..512).map(|i| ((i * 37) % 101) as f32 / 7.0 - 6.5).collect();
    write(&bench, "in.f32", &x);
    let cast = "{ format = \"E5M2\", rounding = \"stochastic\", block = [16, 16], scaling = { type = \"e4m3\", tensor = \"f32\" } }";
    let by = |seed: &str| {
        let outcome =
            apply(&bench, cast, "16,32", &["--axis", "rows", "--tensor-scale", "t.f32", "--seed", seed]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        (read(&bench, "out.f32"), read(&bench, "t.f32"))
    };
    let (one, two) = (by("1"), by("2"));
    assert_eq!(one, by("1"));
    assert!(one.0 != two.0 && one.1 == two.1 && one.1.len() == 1);
    let off = x.iter().zip(&one.0).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(off <= 2.0, "{off}");
}

/// A program may write every key of every cast. Equal values that rule rms takes to about zero are reported.
#[test]
fn keys_without_effect_and_vanished_values_are_warned_of() {
    let bench = Bench::new();
    write(&bench, "in.f32", &[1.0; 32]);
    for (cast, warning, value) in [
        (
            "format = 'E4M3', scaling = { order = 'decode', rule = 'floor' }",
            "`scaling.order` has no effect here",
            1.0,
        ),
        (
            "format = 'E2M1', scaling = { rule = 'rms' }",
            "1 blocks of about equal values became about 0",
            6.0 / 2f32.powi(27),
        ),
        (
            "format = 'E4M3', block = 'none', scaling = { type = 'e8m0' }",
            "`scaling` has no effect with block none",
            1.0,
        ),
    ] {
        let outcome = apply(&bench, cast, "4,8", &["--axis", "rows"]);
        assert_eq!(outcome.code, 0, "{cast}: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with(&format!("warning: {warning}")), "{cast}: {}", outcome.stderr);
        assert_eq!(read(&bench, "out.f32")[0], value, "{cast}");
    }
}

/// What `casts show` calls the blocks of an operand is what a cast calls them.
#[test]
fn blocks_that_a_recipe_shows_are_blocks_of_a_cast() {
    let bench = Bench::new();
    write(&bench, "in.f32", &[1.0; 64]);
    let mut blocks = BTreeSet::new();
    for recipe in ["torchao_rowwise", "mxfp8", "deepseek_v3", "nvfp4", "te_delayed"] {
        let quant = format!("recipe = \"{recipe}\"\nskip_last = 0");
        let file = TINY.replace("weight = \"E5M2\"", &quant).replace("n_embd = 8", "n_embd = 32");
        bench.write("run.toml", &file);
        let shown = bench.host(&["casts", "show", "run.toml"]);
        assert_eq!(shown.code, 0, "{recipe}: {}", shown.stderr);
        let named = shown.stdout.split("block ").skip(1);
        blocks.extend(named.map(|rest| match rest.strip_prefix('[') {
            Some(tile) => format!("[{}]", tile.split(']').next().unwrap()),
            None => rest.split([',', ' ']).next().unwrap().to_owned(),
        }));
    }
    assert_eq!(Vec::from_iter(&blocks), ["128", "16", "32", "[128, 128]", "[16, 16]", "row", "tensor"]);
    for block in blocks {
        let value = if block.starts_with(char::is_alphabetic) { format!("'{block}'") } else { block };
        let cast = format!("format = 'E4M3', block = {value}");
        let applied = apply(&bench, &cast, "8,8", &["--axis", "rows"]);
        assert_eq!(applied.code, 0, "{cast}: {}", applied.stderr);
    }
}

#[test]
fn each_fault_of_a_cast_is_named_and_writes_nothing() {
    let bench = Bench::new();
    write(&bench, "in.f32", &[1.0; 32]);
    let unknown = apply(&bench, "E9M9", "4,8", &["--axis", "rows"]);
    assert_eq!(unknown.code, 2);
    let says = "error: unknown format `E9M9` at `format`\n  --> --cast:1:1\n";
    assert!(unknown.stderr.starts_with(says), "{}", unknown.stderr);
    let mut page = String::new();
    for [cast, shape, file] in [
        ["format = 'E4M3', blok = 8", "4,8", ""],
        ["format = 'E4M3', block = 'column'", "4,8", ""],
        ["format = 'E4M3', scaling = { type = 'e4m3', rule = 'floor' }", "4,8", ""],
        ["format = 'E4M3', rounding = 'toward-zero', scaling = { rule = 'even' }", "4,8", ""],
        ["format = 'E4M3', block = 'row', scaling = { amax = 'static', static_amax = 2 }", "4,8", ""],
        ["format = 'E4M3', scaling = { amax = 'static', static_amax = 1e39 }", "4,8", ""],
        ["format = 'E4M3', scaling = { amax = 'delayed' }", "4,8", ""],
        ["format = 'E4M3', transform = { hadamard = 16, signs = 'te' }", "4,8", ""],
        ["E4M3", "4,9", ""],
        ["E4M3", "4", ""],
        ["E4M3", "4,8", "--scale-codes"],
        ["E4M3", "4,8", "--tensor-scale"],
    ] {
        let files: &[&str] = if file.is_empty() { &[] } else { &[file, "s.u8"] };
        let outcome = apply(&bench, cast, shape, &[&["--axis", "rows"], files].concat());
        assert_eq!(outcome.code, 2, "{cast}: {}", outcome.stderr);
        page += &format!("=== --cast {cast:?} --shape {shape} {file}\n{}\n", bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("cast_faults", page);
    assert!(!bench.path("out.f32").exists() && !bench.path("s.u8").exists());
}
