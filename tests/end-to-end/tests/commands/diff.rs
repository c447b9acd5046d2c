//! `diff` from a user's view: places of differences, equal runs, and runs that cannot be compared.

use altgrad_end_to_end::{Bench, Outcome, TINY};
use insta::assert_snapshot;
use serde_json::Value;

/// Compares two run files, given as changes of the tiny one: pairs of a text and its replacement.
fn diff(bench: &Bench, changes: [&[(&str, &str)]; 2], options: &[&str]) -> Outcome {
    for (file, changes) in ["a.toml", "b.toml"].into_iter().zip(changes) {
        let text = changes.iter().fold(TINY.to_string(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        bench.write(file, &text);
    }
    bench.host(&[&["diff", "a.toml", "b.toml"], options].concat())
}

/// The partings that `--json` tells, as `[phase, layer, operation]`.
#[track_caller]
fn partings(outcome: &Outcome) -> Vec<[String; 3]> {
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{}", outcome.stderr));
    let partings = found["partings"].as_array().unwrap();
    assert_eq!(found["parted"], !partings.is_empty());
    assert_eq!(outcome.code, i32::from(!partings.is_empty()));
    let text = |parting: &Value, key: &str| parting[key].as_str().unwrap().to_string();
    partings.iter().map(|parting| ["phase", "layer", "operation"].map(|key| text(parting, key))).collect()
}

const UNROUNDED: &[(&str, &str)] = &[("weight = \"E5M2\"", "")];

#[test]
fn equal_runs_have_no_difference_in_any_step() {
    let bench = Bench::new();
    let stochastic: &[(&str, &str)] =
        &[("weight = \"E5M2\"", "weight = \"E5M2\"\ngrad = \"E4M3\"\nrounding = \"stochastic\"")];
    let outcome = diff(&bench, [stochastic, stochastic], &["--steps", "100"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // The run has six steps.
    assert_eq!(outcome.stdout, "a.toml and b.toml: no difference above 0 ULP in 6 steps\n");
    assert_eq!(bench.contents(), ["a.toml", "b.toml", "corpus.txt"]);
}

#[test]
fn a_schedule_that_waits_for_an_alert_is_mentioned() {
    let bench = Bench::new();
    let waiting: &[(&str, &str)] =
        &[("weight = \"E5M2\"", "weight = \"E5M2\"\n[[quant.schedule]]\non = \"kurtosis\"\nnone = true")];
    let warnings = |b: &[(&str, &str)]| {
        let outcome = diff(&bench, [&[], b], &["--steps", "1"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stderr.matches("warning: entries of `quant.schedule` with `on` have no effect here").count()
    };
    assert_eq!([warnings(waiting), warnings(&[])], [1, 0]);
}

/// A format off against a format that nothing matches: unquantized is unquantized.
#[test]
fn excluding_every_layer_is_the_unquantized_run() {
    let off: &[(&str, &str)] = &[("weight = \"E5M2\"", "weight = \"E5M2\"\nexclude = [\"*\"]")];
    let outcome = diff(&Bench::new(), [UNROUNDED, off], &["--json", "--steps", "4"]);
    assert!(partings(&outcome).is_empty(), "{}", outcome.stdout);
}

#[test]
fn quantized_weights_differ_first_at_the_first_rounded_weight() {
    let bench = Bench::new();
    let outcome = diff(&bench, [UNROUNDED, &[]], &["--steps", "3"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let first = "a.toml and b.toml differ at step 0, forward: h.0.attn.c_attn, rounded weight\n";
    assert!(outcome.stdout.starts_with(first), "{}", outcome.stdout);
    let found = partings(&diff(&bench, [UNROUNDED, &[]], &["--steps", "3", "--json"]));
    assert_eq!(found[0], ["forward", "h.0.attn.c_attn", "rounded weight"]);
    // The consequences, each at its first place.
    for expected in [
        ["forward", "h.0.attn.c_attn", "product"],
        ["forward", "h.0.attn", "scores"],
        ["forward", "loss", "cross-entropy"],
        ["backward", "lm_head", "gradient of output"],
        ["backward", "wte.weight", "gradient"],
    ] {
        assert!(found.iter().any(|parting| parting[..] == expected[..]), "{expected:?}: {found:?}");
    }
    let json: Value = serde_json::from_str(&diff(&bench, [UNROUNDED, &[]], &["--json"]).stdout).unwrap();
    let parting = &json["partings"][0];
    let bits = |side: &str| parting[side]["f32_bits"].as_i64().unwrap();
    assert_eq!(parting["largest_ulp"].as_i64().unwrap(), (bits("a") - bits("b")).abs());
    assert_eq!(parting["elements"], 192);
    // With a tolerance above the largest distance no weights differ.
    let largest = parting["largest_ulp"].as_u64().unwrap().to_string();
    let tolerant = partings(&diff(&bench, [UNROUNDED, &[]], &["--json", "--ulp", &largest]));
    assert!(
        tolerant.first().is_none_or(|first| first[1..] != ["h.0.attn.c_attn", "rounded weight"]),
        "{tolerant:?}"
    );
}

#[test]
fn quantized_gradients_differ_first_in_the_backward_pass() {
    let grad: &[(&str, &str)] = &[("weight = \"E5M2\"", "grad = \"E5M2\"")];
    let found = partings(&diff(&Bench::new(), [UNROUNDED, grad], &["--json"]));
    assert_eq!(found[0], ["backward", "lm_head", "rounded gradient"]);
    assert!(found.iter().all(|parting| parting[0] != "forward"), "{found:?}");
}

#[test]
fn another_learning_rate_differs_first_in_the_update() {
    let bench = Bench::new();
    let outcome = diff(&bench, [&[], &[("lr = 0.01\n", "lr = 0.02\n")]], &["--json"]);
    assert_eq!(partings(&outcome), [["update", "wte.weight", "parameter"].map(String::from)]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!([&json["steps"], &json["partings"][0]["step"]], [1, 0]);
    // The schedule's end differs, its beginning does not: equal until the warm-up is over.
    let outcome = diff(&bench, [&[], &[("min_lr = 0.001", "min_lr = 0.002")]], &["--json"]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["partings"][0]["phase"], "update", "{}", outcome.stdout);
    assert!(json["partings"][0]["step"].as_u64().unwrap() >= 2, "{}", outcome.stdout);
}

#[test]
fn runs_that_differ_in_model_data_or_seed_are_refused_with_both_places() {
    let bench = Bench::new();
    let mut page = String::new();
    for (from, to) in [
        ("[run]\n", "[run]\nseed = 7\n"),
        ("batch_size = 2", "batch_size = 3"),
        ("n_embd = 8", "n_embd = 16"),
        ("lr = 0.01\n", "lr = 0.01\ngrad_accum = 2\n"),
    ] {
        let outcome = diff(&bench, [&[], &[(from, to)]], &[]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        page += &format!("=== b.toml: {}\n{}\n", to.trim_end().replace('\n', "; "), outcome.stderr);
    }
    assert_snapshot!("diff_faults", page);
    // The same value for both makes them comparable.
    let outcome = diff(&bench, [&[], &[("[run]\n", "[run]\nseed = 7\n")]], &["--set", "run.seed=3"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// A run whose loss becomes NaN reports the origin.
#[test]
fn a_run_names_the_tensor_where_its_nan_began() {
    let bench = Bench::new();
    // The first update makes weights of 1e15: queries and keys of 1e30, and scores of 1e60.
    let huge = TINY
        .replace("lr = 0.01\nmin_lr = 0.001", "lr = 1e15\nmin_lr = 1e15")
        .replace("weight = \"E5M2\"", "");
    bench.write("run.toml", &huge.replace("max_steps = 6", "max_steps = 20"));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run"]);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    let first = "alert at step 1 (nan_loss): the training loss is NaN; it began at step 1 in h.0.attn, scores (inf at";
    assert!(outcome.stderr.starts_with(first), "{}", outcome.stderr);
    let named = "step 1 is not finite; first in the forward pass: h.0.attn, scores (inf at";
    assert!(outcome.stderr.contains(named), "{}", outcome.stderr);
    let status: Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    assert!(status["error"].as_str().unwrap().contains(named), "{status}");
}
