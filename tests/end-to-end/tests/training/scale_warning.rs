//! The warning before the first step about scales that lose much of the weights' signal to noise: printed only in this
//! case.

use altgrad_end_to_end::{Bench, TINY, built, plugin};

/// All shipped formats.
const FORMATS: [&str; 17] = [
    "DYNAMIC8", "E0M7", "E1M6", "E2M1", "E2M3", "E2M5", "E3M2", "E3M4", "E4M3", "E5M10", "E5M2", "E5M6",
    "E6M1", "E7M0", "E8M7", "INT4", "INT8",
];
const WARNING: &str = "dB of signal to noise";

/// A bench with some formats, and a run file that asks for one of them.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in FORMATS.map(str::to_lowercase).iter().map(String::as_str).chain(["adamw", "csv"]) {
        bench.add_plugin(&plugin(&format!("{name}.so")));
    }
    bench.add_plugin(&built("libaltgrad_example_int8.so"));
    bench.add_plugin(&built("libaltgrad_example_posit8.so"));
    let model = TINY.replace("n_embd = 8", "n_embd = 32").replace("max_steps = 6", "max_steps = 2");
    bench.write(
        "run.toml",
        &format!("{}\n[plugins]\ndir = \"plugins\"\n", model.replace("warmup_steps = 2", "warmup_steps = 1")),
    );
    bench
}

/// The output of a run with these settings on standard error.
#[track_caller]
fn said(bench: &Bench, settings: &[&str]) -> String {
    let sets = settings.iter().flat_map(|setting| ["--set", setting]);
    let args: Vec<&str> = ["run", "run.toml", "--quiet", "--out", "out"].into_iter().chain(sets).collect();
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 0, "{settings:?}: {}", outcome.stderr);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    outcome.stderr
}

#[test]
fn scales_that_cost_much_are_named_with_the_margin_that_does_not() {
    let bench = bench();
    // Moved to the largest posit, as scales would be if the format declared nothing.
    let posit = said(&bench, &["quant.weight=POSIT8", "quant.scaling.margin=-20"]);
    assert!(posit.contains("the scale of `") && posit.contains("with `quant.scaling.margin = "), "{posit}");
    assert_eq!(posit.matches(WARNING).count(), 1, "{posit}");
    let lost: f64 = posit.split(" costs ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((20.0..35.0).contains(&lost), "{posit}");
    let e4m3 = said(&bench, &["quant.weight=E4M3", "quant.scaling.margin=20"]);
    assert!(e4m3.contains(WARNING) && e4m3.contains("more weights lose more than 3 dB"), "{e4m3}");
    let stored = ["quant.weight=E4M3", "quant.master_weights=none", "quant.stored_scale.margin=20"];
    let stored = said(&bench, &stored);
    assert!(stored.contains("with `quant.stored_scale.margin = "), "{stored}");
    // The margin that is named costs nothing.
    let margin = posit.split("quant.scaling.margin = ").nth(1).unwrap().split('`').next().unwrap();
    let better = said(&bench, &["quant.weight=POSIT8", &format!("quant.scaling.margin={margin}")]);
    assert!(!better.contains(WARNING), "{better}");
}

#[test]
fn the_key_of_the_margin_is_the_one_that_sets_the_weights_margin() {
    let bench = bench();
    let cases: [(&[&str], &str); 3] = [
        (&["quant.cast.weight.scaling.margin=20"], "quant.cast.weight.scaling.margin"),
        (&["quant.layer=[{match=\"*.mlp.*\", scaling={margin=20}}]"], "quant.layer.0.scaling.margin"),
        (
            &["quant.master_weights=none", "quant.stored_scale={rule=\"dynamic\", margin=20}"],
            "quant.stored_scale.margin",
        ),
    ];
    for (settings, key) in cases {
        let stderr = said(&bench, &[&["quant.weight=E4M3"], settings].concat());
        assert!(stderr.contains(&format!(", with `{key} = ")), "{settings:?}: {stderr}");
    }
}

/// Every format with its default scale, and every kind of scale once.
#[test]
fn healthy_scales_are_not_mentioned() {
    let bench = bench();
    let scalings: [&[&str]; 7] = [
        &[],
        &["quant.block=row"],
        &["quant.block=32", "quant.scaling.pow2=true"],
        &["quant.scaling.margin=1"],
        &["quant.scaling.amax=delayed"],
        &["quant.master_weights=none"],
        &["quant.master_weights=none", "quant.stored_scale.rule=fixed"],
    ];
    let formats = || FORMATS.into_iter().chain(["INT8-RUST", "POSIT8"]);
    let alone = formats().map(|format| (format, scalings[0]));
    for (format, scaling) in alone.chain(formats().zip(scalings.into_iter().cycle().skip(1))) {
        let weight = format!("quant.weight={format}");
        let settings = [&[weight.as_str()], scaling].concat();
        let stderr = said(&bench, &settings);
        assert!(!stderr.contains(WARNING), "{settings:?}: {stderr}");
    }
}

/// Scales that the warning cannot judge: under a scale of the tensor, of transformed weights, and a first scale of 1.
#[test]
fn scales_of_recipes_are_not_mentioned() {
    let bench = bench();
    let settings: [&[&str]; 3] = [
        &["quant.weight=E2M1", "quant.scaling={amax=\"delayed\", first=\"one\"}"],
        &["quant.weight=E2M1", "quant.block=4", "quant.scaling={type=\"e4m3\", tensor=\"f32\"}"],
        &[
            "quant.weight=E2M1",
            "quant.activation=E2M1",
            "quant.transform={hadamard=8}",
            "quant.block=8",
            "quant.scaling={type=\"e8m0\", rule=\"rms\"}",
        ],
    ];
    for settings in settings {
        let stderr = said(&bench, settings);
        assert!(!stderr.contains(WARNING), "{settings:?}: {stderr}");
    }
}

#[test]
fn a_format_too_narrow_for_the_gradient_at_the_head_is_named() {
    let bench = bench();
    let warned = |settings: &[&str]| {
        let all = [&["data.tokenizer=byte"], settings].concat();
        said(&bench, &all).matches("zeroes small elements of the logit gradient, `wte.weight`").count()
    };
    assert_eq!(warned(&["quant.grad=E1M6"]), 1);
    assert_eq!(warned(&["quant.grad=E2M1", "quant.cast.grad.block=row"]), 1);
    for silent in [
        &["quant.grad=E3M4"][..],
        &["quant.grad=E1M6", "quant.cast.grad.rounding=stochastic"],
        &["quant.grad=E2M1", "quant.cast.grad.block=16"],
        &["quant.grad=E1M6", "quant.exclude=[\"lm_head.weight\"]"],
        &["quant.weight=E2M1"],
    ] {
        assert_eq!(warned(silent), 0, "{silent:?}");
    }
}
