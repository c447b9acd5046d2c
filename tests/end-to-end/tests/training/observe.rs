//! Observation without rounding: it changes no bit of a run, and agrees with the statistics of rounding at
//! the same place.

use std::collections::BTreeMap;

use altgrad_end_to_end::{Bench, TINY};
use insta::assert_snapshot;

/// The smallest run, unquantized, with two micro-batches, dropout and every metric.
fn plain() -> String {
    let text = TINY.replace("weight = \"E5M2\"", "").replace("[quant]\n", "");
    let text = text.replace("[train]\n", "[train]\ngrad_accum = 2\n").replace("n_layer = 1", "n_layer = 2");
    text.replace("[model]\n", "[model]\ndropout = 0.1\n")
        + "[metrics]\nhistograms_every = 1\n[[sink]]\nname = \"csv\"\n"
}

/// Every site has a cast of its own, which is the same everywhere.
fn rounded_everywhere(cast: &str) -> String {
    let values = [
        "qkv",
        "query",
        "key",
        "value",
        "probabilities",
        "scores_grad",
        "attention_grad",
        "qkv_grad",
        "residual",
        "norm",
        "norm_gain",
        "embedding",
        "logits",
        "weight_grad",
    ];
    let mut text = format!(
        "[quant]\nweight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E4M3\"\nsource = \"hp\"\n{cast}\n"
    );
    for value in values {
        text += &format!("[quant.cast.{value}]\nformat = \"E4M3\"\n");
    }
    text
}

const OBSERVE: &str = "[observe]\nformats = [\"E4M3\", \"E5M2\", \"E2M1\"]\nevery = 2\n";

fn run(bench: &Bench, text: &str, out: &str) -> BTreeMap<String, Vec<String>> {
    bench.write("run.toml", text);
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", out]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    bench.metrics(out)
}

#[test]
fn weights_losses_and_all_other_metrics_are_bit_identical() {
    let delayed = "[quant]\nweight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"\nrounding = \"stochastic\"\n\
                   [quant.scaling]\namax = \"delayed\"\nwindow = 2\n";
    let stored = "[quant]\nweight = \"E5M2\"\nmaster_weights = \"none\"\n";
    let cases = [
        ("fp32", String::new()),
        ("bf16", "[train]\nprecision = \"bf16\"\n".to_owned()),
        ("delayed", delayed.to_owned()),
        ("stored", stored.to_owned()),
        ("everywhere", rounded_everywhere("block = 8\nscaling = { type = \"e8m0\", rule = \"floor\" }")),
    ];
    for (name, quant) in cases {
        let bench = Bench::new();
        let text = match quant.strip_prefix("[train]\n") {
            Some(keys) => plain().replace("[train]\n", &format!("[train]\n{keys}")),
            None => plain() + &quant,
        };
        let without = run(&bench, &text, "without");
        let with = run(&bench, &format!("{text}{OBSERVE}"), "with");
        for file in
            ["weights", "checkpoints/last/model", "checkpoints/last/optimizer", "checkpoints/last/meter"]
        {
            let bytes =
                |run: &str| std::fs::read(bench.path(run).join(format!("{file}.safetensors"))).unwrap();
            assert!(bytes("without") == bytes("with"), "{name}: {file} differs");
        }
        for (metric, values) in &without {
            assert_eq!(Some(values), with.get(metric), "{name}: {metric}");
        }
        assert!(!without.keys().any(|metric| metric.starts_with("observe/")), "{name}");
        let loss = &with["observe/logits/sqnr_db/E4M3"];
        assert!(
            loss.iter().enumerate().all(|(step, cell)| cell.is_empty() == (step % 2 == 1)),
            "{name}: {loss:?}"
        );
    }
}

/// True if two cells are equal within this relative error.
fn is_close(a: &str, b: &str, error: f64) -> bool {
    let number = |text: &str| text.parse().unwrap_or(f64::NAN);
    let (a, b): (f64, f64) = (number(a), number(b));
    (a - b).abs() <= error * b.abs().max(1.0)
}

/// `quant/ROLE/METRIC` of a run that rounds everywhere, compared with the observation of the same run.
fn compare(bench: &Bench, text: &str, metrics: &[(&str, &str)]) {
    let seen = run(bench, text, "rounded");
    let mut compared = 0;
    for (name, values) in &seen {
        let Some((role, rest)) = name.strip_prefix("quant/").and_then(|name| name.split_once('/')) else {
            continue;
        };
        for (rounded, observed) in metrics {
            let Some(of) = rest.strip_prefix(rounded).filter(|of| of.is_empty() || of.starts_with('/'))
            else {
                continue;
            };
            let observed = format!("observe/{role}/{observed}{of}");
            let others = seen.get(&observed).unwrap_or_else(|| panic!("no {observed}"));
            // Sums of powers over a transposed matrix have another order.
            let pairs = values.iter().zip(others);
            let mut is_same = pairs.map(|(a, b)| a == b || *rounded == "kurtosis" && is_close(a, b, 1e-12));
            assert!(is_same.all(|same| same), "{name} and {observed}: {values:?} {others:?}");
            compared += 1;
        }
    }
    // Twenty roles, and 10 linear layers of 7 uses, among others.
    assert!(compared > 60 * metrics.len(), "{compared} compared");
    std::fs::remove_dir_all(bench.path("rounded")).unwrap();
}

#[test]
fn what_is_seen_is_what_rounding_at_the_same_place_sees() {
    let bench = Bench::new();
    let text = plain().replace("grad_accum = 2", "grad_accum = 1");
    let cast = "block = 8\nscaling = { type = \"e8m0\", rule = \"floor\" }";
    let observe = "[observe]\nformats = [\"E4M3\"]\nevery = 1\n";
    let same = format!("{text}{}{observe}{cast}\n", rounded_everywhere(cast));
    compare(&bench, &same, &[("amax", "amax"), ("sqnr_db", "sqnr_db/E4M3")]);
    // Scale 1: overflow and underflow follow from the format's range.
    let unscaled = format!("{text}{}{observe}", rounded_everywhere("block = \"none\""));
    let metrics = [
        ("overflow_rate", "overflow_rate/E4M3"),
        ("underflow_rate", "underflow_rate/E4M3"),
        ("kurtosis", "kurtosis"),
    ];
    compare(&bench, &unscaled, &metrics);
}

#[test]
fn an_unquantized_run_is_observed_in_all_roles_or_some() {
    let bench = Bench::new();
    let all = run(&bench, &format!("{}{OBSERVE}", plain()), "all");
    let roles: std::collections::BTreeSet<&str> =
        all.keys().filter_map(|name| name.strip_prefix("observe/")?.split('/').next()).collect();
    assert_eq!(roles.len(), 20, "{roles:?}");
    let first = |name: &str| all[name][0].clone();
    // Gains begin as 1: one magnitude, no spread, and exact in every format.
    assert_eq!(
        (first("observe/norm_gain/amax"), first("observe/norm_gain/range")),
        ("1.0".into(), "0.0".into())
    );
    assert_eq!(first("observe/norm_gain/overflow_rate/E2M1"), "0.0");
    assert_eq!(first("observe/norm_gain/sqnr_db/E2M1"), "");
    // A softmax is at most 1, over masked zeros; with dropout of 0.1 kept values are multiplied by 1 / 0.9.
    let most: f64 = first("observe/probabilities/amax").parse().unwrap();
    assert!(most > 0.9 && most <= 1.0 / 0.9 + 1e-6, "{most}");
    // More significand bits are less noise, with scales: E4M3 above E5M2 above E2M1.
    let sqnr = |format: &str| first(&format!("observe/activation/sqnr_db/{format}")).parse::<f64>().unwrap();
    assert!(sqnr("E4M3") > sqnr("E5M2") + 4.0 && sqnr("E5M2") > sqnr("E2M1") + 4.0);
    let some = format!("{}{OBSERVE}roles = [\"grad\", \"residual\"]\n", plain());
    let some = run(&bench, &some, "some");
    let names = |name: &&String| name.starts_with("observe/");
    assert!(
        some.keys()
            .filter(names)
            .all(|name| name.starts_with("observe/grad/") || name.starts_with("observe/residual/"))
    );
    for name in some.keys().filter(names) {
        // Attention is fused where nothing in it is observed: the last bits of later values differ.
        let equal = |a: &String, b: &String| a == b || is_close(a, b, 1e-3);
        assert!(
            some[name].iter().zip(&all[name]).all(|(a, b)| equal(a, b)),
            "{name}: {:?} {:?}",
            some[name],
            all[name]
        );
    }
}

/// With initial weights the 256 tokens are about equally probable. The elements at the targets are half of all
/// magnitudes, and the others are 255 times smaller: below half of the smallest value of E2M1, whose largest is 12
/// times its smallest, and well within E5M2.
#[test]
fn at_step_0_the_zeroed_mass_at_the_head_follows_from_vocabulary_and_range() {
    let bench = Bench::new();
    let observe = "[observe]\nformats = [\"E2M1\", \"E5M2\"]\nroles = [\"grad\"]\nevery = 1\n";
    let bytes = plain().replace("tokenizer = \"char\"", "tokenizer = \"byte\"");
    let seen = run(&bench, &format!("{bytes}{observe}"), "run");
    let head = |format: &str| -> f64 {
        seen[&format!("observe/grad/zeroed_mass/{format}/wte.weight")][0].parse().unwrap()
    };
    assert!((head("E2M1") - 0.5).abs() < 1e-3, "{}", head("E2M1"));
    assert!(head("E5M2").abs() < 1e-6, "{}", head("E5M2"));
}

#[test]
fn each_fault_of_an_observation_is_placed() {
    let bench = Bench::new();
    let mut page = String::new();
    for keys in [
        "every = 10",
        "formats = [\"E4M3\"]\nevery = 0",
        "formats = [\"E4M3\", \"E9M9\"]",
        "formats = [\"E4M3\", \"E4M3\"]",
        "formats = [\"none\"]",
        "formats = [\"E4M3\"]\nroles = [\"weight\", \"activations\"]",
        "formats = [\"E4M3\"]\nroles = \"weight\"",
        "formats = [\"E4M3\"]\nroles = []",
        "formats = [\"E4M3\"]\nroles = [\"grad\", \"grad\"]",
        "formats = [\"E4M3\"]\nroles = [\"norm_gain\"]\nblock = [16, 16]",
        "formats = [\"E4M3\"]\nblock = 0",
        "formats = [\"E4M3\"]\nblock = \"none\"\nscaling = { pow2 = true }",
        "formats = [\"E4M3\"]\nscaling = { rule = \"floor\", pow2 = true }",
        "formats = [\"E4M3\"]\nscaling = { amax = \"delayed\" }",
        "formats = [\"E4M3\"]\nscaling = { amax = \"static\" }",
        "formats = [\"E4M3\"]\nscaling = { window = 4 }",
        "formats = [\"E4M3\"]\nblock = 4\nscaling = { amax = \"static\", static_amax = 2.0 }",
        "formats = [\"E4M3\"]\nscaling = { tensor = \"f32\" }",
        "formats = [\"E4M3\"]\nformat = \"E4M3\"",
    ] {
        bench.write("run.toml", &format!("{}[observe]\n{keys}\n", plain()));
        let outcome = bench.host(&["check", "run.toml"]);
        assert_eq!(outcome.code, 2, "{keys}: {}", outcome.stderr);
        page += &format!("=== {}\n{}\n", keys.replace('\n', "; "), bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("observe_faults", page);
}
