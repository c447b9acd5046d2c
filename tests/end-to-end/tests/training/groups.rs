//! Parameter groups: options and learning rates by pattern, and refusals.

use altgrad_end_to_end::{Bench, TINY};
use insta::assert_snapshot;

/// Runs TINY with these groups; the weights by name.
fn weights(bench: &Bench, groups: &str, out: &str) -> Vec<(String, Vec<u8>)> {
    bench.write("run.toml", &format!("{}\n{groups}", TINY.replace("weight = \"E5M2\"", "")));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", out]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let bytes = std::fs::read(bench.path(out).join("weights.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<(String, Vec<u8>)> =
        tensors.tensors().into_iter().map(|(name, tensor)| (name, tensor.data().to_vec())).collect();
    all.sort();
    all
}

/// Names of the parameters in which two sets differ.
fn differing(a: &[(String, Vec<u8>)], b: &[(String, Vec<u8>)]) -> Vec<String> {
    let pairs = a.iter().zip(b).filter(|(a, b)| a.1 != b.1);
    pairs.map(|(a, _)| a.0.trim_start_matches("transformer.").to_string()).collect()
}

#[test]
fn groups_have_their_own_learning_rate_and_options() {
    let bench = Bench::new();
    let frozen_all = weights(&bench, "[[optimizer.group]]\nmatch = \"*\"\nlr_scale = 0.0", "frozen");
    // A later group that matches replaces an earlier one: only the norms move.
    let norms = "[[optimizer.group]]\nmatch = \"*\"\nlr_scale = 0.0\n[[optimizer.group]]\nmatch = \"*ln_*\"";
    let moved = differing(&frozen_all, &weights(&bench, norms, "norms"));
    assert_eq!(moved, ["h.0.ln_1.weight", "h.0.ln_2.weight", "ln_f.weight"]);
    // An option of the optimizer, for one parameter, while nothing else moves.
    let decayed = "[[optimizer.group]]\nmatch = \"*\"\nlr_scale = 0.0\n\
        [[optimizer.group]]\nmatch = \"*c_fc*\"\nweight_decay = ";
    let [plain, strong] =
        ["0.0", "5.0"].map(|decay| weights(&bench, &format!("{decayed}{decay}"), &format!("decay-{decay}")));
    assert_eq!(differing(&frozen_all, &plain), ["h.0.mlp.c_fc.weight"]);
    assert_eq!(differing(&plain, &strong), ["h.0.mlp.c_fc.weight"]);
}

#[test]
fn an_excluded_name_that_no_parameter_has_is_mentioned() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    let said = |exclude: &str| {
        let exclude = format!("optimizer.exclude={exclude}");
        let outcome = bench.host(&["check", "run.toml", "--set", "optimizer.name=muon", "--set", &exclude]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stderr
    };
    let tied =
        "`optimizer.exclude`: no parameter has the name `lm_head.weight`; the tied head is `wte.weight`";
    let stderr = said("[\"lm_head.weight\"]");
    assert!(stderr.contains(tied), "{stderr}");
    let stderr = said("[\"wte.weight\", \"wpe.weight\", \"lm_head.weight\"]");
    assert!(!stderr.contains("optimizer.exclude"), "{stderr}");
}

#[test]
fn each_fault_of_a_group_is_placed() {
    let bench = Bench::new();
    let mut page = String::new();
    for group in [
        "match = \"*.foo\"",
        "match = \"lm_head.weight\"",
        "match = \"*\"\nlr_scale = -1.0",
        "match = \"*\"\nbeta3 = 0.5",
        "match = \"*\"\nbeta1 = 1.0",
    ] {
        bench.write("run.toml", &format!("{TINY}[[optimizer.group]]\n{group}\n"));
        let outcome = bench.host(&["check", "run.toml"]);
        assert_eq!(outcome.code, 2, "{group}: {}", outcome.stderr);
        page += &format!("=== {}\n{}\n", group.replace('\n', "; "), bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("group_faults", page);
}
