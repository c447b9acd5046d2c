//! The formats on the command line: listed, drawn, tabled, and rounding as training does.

use std::fs;

use altgrad_end_to_end::Bench;
use insta::assert_snapshot;

/// (name, bits, largest value) of the canonical domains: the table of docs/numerics.md, section 1.3.
const CANONICAL: [(&str, usize, f64); 16] = [
    ("E0M7", 8, 1.984375),
    ("E1M6", 8, 3.96875),
    ("E2M1", 4, 6.0),
    ("E2M3", 6, 7.5),
    ("E2M5", 8, 7.875),
    ("E3M2", 6, 28.0),
    ("E3M4", 8, 31.0),
    ("E4M3", 8, 448.0),
    ("E5M10", 16, 65504.0),
    ("E5M2", 8, 57344.0),
    ("E5M6", 12, 65024.0),
    ("E6M1", 8, 1.5 * 4294967296.0),
    ("E7M0", 8, 18446744073709551616.0),
    ("E8M7", 16, 3.3895313892515355e38),
    ("INT4", 4, 1.75),
    ("INT8", 8, 1.984375),
];

fn table(name: &str) -> Vec<serde_json::Value> {
    let outcome = Bench::new().host(&["formats", "table", name, "--json"]);
    assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
    let table: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    table["codes"].as_array().unwrap().clone()
}

#[test]
fn all_formats_are_listed_with_their_range() {
    let bench = Bench::new();
    assert_snapshot!("list", bench.page(&bench.host(&["formats", "list"])));
    for (name, bits, max) in CANONICAL {
        let codes = table(name);
        assert_eq!(codes.len(), 1 << bits, "{name}");
        let largest = codes.iter().filter_map(|code| code["value"].as_f64()).fold(0.0, f64::max);
        assert_eq!(largest, max, "{name}");
    }
}

#[test]
fn variants_differ_where_the_domain_says() {
    let bits = |name: &str, code: usize| table(name)[code]["f32_bits"].as_u64().unwrap();
    // docs/numerics.md, section 1.4: E4M3 decodes 0x7F to NaN and 0x7E to 448; E5M2 0x7B is 57344 and 0x7C infinity.
    assert!(f32::from_bits(bits("E4M3", 0x7f) as u32).is_nan());
    assert_eq!(f32::from_bits(bits("E4M3", 0x7e) as u32), 448.0);
    assert_eq!(f32::from_bits(bits("E4M3:fin", 0x7f) as u32), 480.0);
    assert_eq!(f32::from_bits(bits("E5M2", 0x7b) as u32), 57344.0);
    assert_eq!(f32::from_bits(bits("E5M2", 0x7c) as u32), f32::INFINITY);
    assert_eq!(f32::from_bits(bits("E3M4:ieee", 0x6f) as u32), 15.5);
    // -0 is kept.
    assert_eq!(bits("E5M2", 0x80), 0x8000_0000);
}

#[test]
fn show_draws_text_and_svg() {
    let bench = Bench::new();
    let outcome = bench.host(&["formats", "show", "E4M3", "--svg", "grid.svg"]);
    assert_snapshot!("show_e4m3", bench.page(&outcome));
    assert!(bench.read("grid.svg").starts_with("<svg"));
    // A linear grid is one stretch.
    let linear = bench.host(&["formats", "show", "E1M6"]).stdout;
    assert!(linear.contains("0.03125 .. 3.96875"), "{linear}");
    assert_snapshot!("show_e2m1", bench.page(&bench.host(&["formats", "show", "E2M1"])));
    // Of 16 bits no map is drawn: it would have 4096 rows.
    let wide = bench.host(&["formats", "show", "E8M7"]).stdout;
    assert!(wide.lines().count() < 300 && wide.contains("`formats table E8M7`"), "{wide}");
}

#[test]
fn quantize_rounds_raw_values() {
    let bench = Bench::new();
    // docs/numerics.md, sections 2.2 and 2.3: ties of E7M0 go to the even code; beyond max saturates; NaN stays NaN; -0
    // stays -0.
    let rows = [
        (1.5, 2.0),
        (3.0, 2.0),
        (6.0, 8.0),
        (1e30, 18446744073709551616.0),
        (f32::NEG_INFINITY, -18446744073709551616.0),
        (-0.0, -0.0),
    ];
    let mut input: Vec<u8> = rows.iter().flat_map(|(x, _)| f32::to_le_bytes(*x)).collect();
    input.extend(f32::NAN.to_le_bytes());
    fs::write(bench.path("in.f32"), input).unwrap();
    let outcome = bench.host(&["formats", "quantize", "E7M0", "--input", "in.f32", "--output", "out.f32"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("quant/nan_count 1"), "{}", outcome.stdout);
    let output = fs::read(bench.path("out.f32")).unwrap();
    let values: Vec<f32> = output.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    for ((x, expected), value) in rows.iter().zip(&values) {
        assert_eq!(value.to_bits(), f32::to_bits(*expected), "{x}");
    }
    assert!(values[6].is_nan());
}

#[test]
fn each_fault_of_quantize_is_named_and_writes_nothing() {
    let bench = Bench::new();
    fs::write(bench.path("odd.f32"), [0; 7]).unwrap();
    let quantize = |name: &str, input: &str, scale: &str| {
        bench.host(&["formats", "quantize", name, "--input", input, "--output", "out.f32", "--scale", scale])
    };
    let mut page = String::new();
    for [name, input, scale] in [
        ["E9M9", "odd.f32", "1"],
        ["E5M2", "odd.f32", "1"],
        ["E5M2", "gone.f32", "1"],
        ["E5M2", "odd.f32", "-1"],
        ["E5M2:odd", "odd.f32", "1"],
    ] {
        let outcome = quantize(name, input, scale);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        page += &format!("=== {name} --input {input} --scale {scale}\n{}\n", bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("quantize_faults", page);
    assert!(!bench.path("out.f32").exists());
}
