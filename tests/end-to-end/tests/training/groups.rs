//! Parameter groups: options and learning rates by pattern, and what is refused.

use altgrad_end_to_end::{Bench, TINY};

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
fn faults_of_groups_are_placed() {
    let bench = Bench::new();
    for (group, message, place) in [
        (
            "match = \"*.foo\"",
            "the pattern `*.foo` at `optimizer.group.0.match` matches no parameter",
            ":26:9",
        ),
        ("match = \"*\"\nlr_scale = -1.0", "`optimizer.group.0.lr_scale` must be 0 or more", ":27:12"),
        ("match = \"*\"\nbeta3 = 0.5", "optimizer.group.0.beta3", ":27:9"),
        ("match = \"*\"\nbeta1 = 1.0", "`beta1` must be below 1", ":2"),
    ] {
        bench.write("run.toml", &format!("{TINY}[[optimizer.group]]\n{group}\n"));
        let outcome = bench.host(&["check", "run.toml"]);
        assert_eq!(outcome.code, 2, "{group}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message) && outcome.stderr.contains(place), "{}", outcome.stderr);
    }
}
