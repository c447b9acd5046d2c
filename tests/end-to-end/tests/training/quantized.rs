//! Quantized training from a user's view: the metrics, the effect of rules, and invariants of measuring.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use altgrad_end_to_end::{Bench, TINY};
use insta::assert_snapshot;

const ROLES: &str = "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"";

/// A tiny run with the CSV sink and this quantization.
fn run_file(quant: &str) -> String {
    let quant = TINY.replace("weight = \"E5M2\"", quant);
    format!("{quant}\n[[sink]]\nname = \"csv\"\n")
}

/// Runs it; the metrics by name, one value a step, empty where missing.
fn run(bench: &Bench, quant: &str, out: &str) -> BTreeMap<String, Vec<String>> {
    run_text(bench, &run_file(quant), out)
}

/// The same with a whole run file.
fn run_text(bench: &Bench, file: &str, out: &str) -> BTreeMap<String, Vec<String>> {
    bench.write("run.toml", file);
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", out]);
    assert_eq!(outcome.code, 0, "{file}: {}", outcome.stderr);
    bench.metrics(out)
}

fn numbers(values: &[String]) -> Vec<f64> {
    values.iter().filter(|value| !value.is_empty()).map(|value| value.parse().unwrap()).collect()
}

#[test]
fn every_role_is_measured_by_layer() {
    let metrics = run(&Bench::new(), ROLES, "run");
    for role in ["weight", "activation", "grad"] {
        for layer in ["h.0.attn.c_attn", "h.0.attn.c_proj", "h.0.mlp.c_fc", "h.0.mlp.c_proj", "wte"] {
            let sqnr = numbers(&metrics[&format!("quant/{role}/sqnr_db/{layer}.weight")]);
            assert_eq!(sqnr.len(), 6, "{role} {layer}");
            // Three significand bits give some 31 dB, two some 25 (docs/numerics.md, section 10.1); these tensors are
            // tiny.
            assert!(sqnr.iter().all(|db| (20.0..40.0).contains(db)), "{role} {layer}: {sqnr:?}");
        }
    }
    assert_eq!(numbers(&metrics["grad_norm_l2/wte.weight"]).len(), 6);
}

/// docs/numerics.md, section 6: a separate graph, no effect on the training step or its randomness.
#[test]
fn shadow_steps_change_nothing() {
    let bench = Bench::new();
    let stochastic = format!("{ROLES}\nrounding = \"stochastic\"");
    let plain = run(&bench, &stochastic, "plain");
    let shadowed = run(&bench, &format!("{stochastic}\n[shadow]\nevery = 2"), "shadowed");
    for (name, values) in &plain {
        assert_eq!(Some(values), shadowed.get(name), "{name}");
    }
    let weights = |out: &str| fs::read(bench.path(out).join("weights.safetensors")).unwrap();
    assert_eq!(weights("plain"), weights("shadowed"));
    let cosines = &shadowed["grad_cos_sim"];
    let missing: Vec<bool> = cosines.iter().map(String::is_empty).collect();
    assert_eq!(missing, [false, true, false, true, false, true]);
    assert!(numbers(cosines).iter().all(|cosine| (0.9..1.0).contains(cosine)), "{cosines:?}");
}

/// Excluding every layer is bit-identical to the unquantized run.
#[test]
fn excluding_every_layer_is_the_unquantized_run() {
    let bench = Bench::new();
    let plain = run(&bench, "", "plain");
    let off = run(&bench, &format!("{ROLES}\nexclude = [\"*\"]"), "off");
    assert_eq!(plain, off);
    let warned = bench.host(&["check", "run.toml"]).stderr;
    assert_eq!(warned.matches("has no effect: no ").count(), 3, "{warned}");
    let weights = |out: &str| fs::read(bench.path(out).join("weights.safetensors")).unwrap();
    assert_eq!(weights("plain"), weights("off"));
    // bf16 operands are another run, a little.
    let file = run_file("").replace("[train]", "[train]\nprecision = \"bf16\"");
    let bf16 = run_text(&bench, &file, "bf16");
    let (plain, bf16) = (numbers(&plain["train/loss"]), numbers(&bf16["train/loss"]));
    for (plain, bf16) in plain.iter().zip(&bf16) {
        assert!(plain != bf16 && (plain - bf16).abs() < 1e-3, "{plain}, {bf16}");
    }
}

/// Wide sums are those of f32 but for rounding, narrow ones are not, and those of a recipe train.
#[test]
fn sums_of_limited_width_change_the_loss_by_their_width() {
    let bench = Bench::new();
    let losses = |accumulate: &str, out: &str| {
        numbers(&run(&bench, &format!("{ROLES}\naccumulate = {accumulate}"), out)["train/loss"])
    };
    let f32 = losses("\"f32\"", "f32");
    assert_eq!(f32, numbers(&run(&bench, ROLES, "default")["train/loss"]));
    let furthest = |others: &[f64]| f32.iter().zip(others).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let wide = losses("{ bits = 30, round = \"nearest\", group = 4 }", "wide");
    let narrow = losses("{ bits = 4, group = 4 }", "narrow");
    assert!(furthest(&wide) < 1e-3 && furthest(&narrow) > 1e-3, "{f32:?} {wide:?} {narrow:?}");
    let recipe = numbers(&run(&bench, "recipe = \"deepseek_v3_hopper\"", "recipe")["train/loss"]);
    assert_eq!(recipe.len(), f32.len());
    // Exact sums of blocks in many bits are those of f32 but for rounding, forward and backward.
    let of_blocks = |accumulate: &str, out: &str| {
        let scaling = "block = 16\nsource = \"hp\"\nscaling = { type = \"e4m3\", tensor = \"f32\" }";
        let casts = "weight = \"E2M1\"\nactivation = \"E2M1\"\ngrad = \"E2M1\"";
        let quant = format!("{casts}\n{scaling}\naccumulate = {accumulate}");
        numbers(&run(&bench, &quant, out)["train/loss"])
    };
    let (f32, fp4) = (of_blocks("\"f32\"", "e2m1"), of_blocks("\"blackwell_fp4\"", "fp4"));
    let narrow = of_blocks("{ bits = 6, exact = 16, group = 64 }", "fewer");
    let furthest = |others: &[f64]| f32.iter().zip(others).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(furthest(&fp4) < 1e-3 && furthest(&narrow) > 1e-3, "{f32:?} {fp4:?} {narrow:?}");
}

#[test]
fn without_rounding_shadow_gradients_are_the_gradients() {
    let metrics = run(&Bench::new(), "[shadow]\nevery = 1", "run");
    for name in ["grad_cos_sim", "grad_norm_ratio", "grad_sign_agree"] {
        assert!(numbers(&metrics[name]).iter().all(|value| (value - 1.0).abs() < 1e-6), "{name}");
    }
    assert!(metrics["grad_signal_to_noise"].iter().all(String::is_empty), "there is no noise");
}

#[test]
fn without_metrics_of_parameters_rounding_has_those_of_roles_only() {
    let of_rounding = |metrics: &str| {
        let run = run(
            &Bench::new(),
            &format!("weight = \"E4M3\"\n[metrics]\nhistograms_every = 0\n{metrics}"),
            "run",
        );
        run.into_keys().filter(|name| name.starts_with("quant/weight/")).collect::<Vec<_>>()
    };
    let (roles, all) = (of_rounding("every = 0"), of_rounding("every = 1"));
    let depth = |name: &String| name.split('/').count();
    assert!(!roles.is_empty() && roles.iter().all(|name| depth(name) == 3), "{roles:?}");
    let kept: Vec<String> = all.iter().filter(|name| depth(name) == 3).cloned().collect();
    assert!(all.len() > kept.len() && kept == roles, "{kept:?} {roles:?}");
}

#[test]
fn rules_choose_formats_by_layer() {
    let rules = "weight = \"E4M3\"\nexclude = [\"wte*\"]\n\
        [[quant.layer]]\nmatch = \"*.mlp.*\"\nweight = \"E3M4\"\ngrad = \"E5M2\"\n\
        [[quant.layer]]\nmatch = \"*.c_proj.*\"\nweight = \"none\"";
    let metrics = run(&Bench::new(), rules, "run");
    let rounded: Vec<&str> =
        metrics.keys().filter_map(|name| name.strip_prefix("quant/weight/sqnr_db/")).collect();
    assert_eq!(rounded, ["h.0.attn.c_attn.weight", "h.0.mlp.c_fc.weight"]);
    let grads: Vec<&str> =
        metrics.keys().filter_map(|name| name.strip_prefix("quant/grad/sqnr_db/")).collect();
    assert_eq!(grads, ["h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight"]);
    let mean = |name: &str| numbers(&metrics[name]).iter().sum::<f64>() / 6.0;
    let (coarse, fine) = (
        mean("quant/weight/sqnr_db/h.0.attn.c_attn.weight"),
        mean("quant/weight/sqnr_db/h.0.mlp.c_fc.weight"),
    );
    assert!(fine > coarse + 3.0, "one more significand bit is worth 6 dB: {coarse}, {fine}");
}

#[test]
fn skipped_blocks_stay_unquantized() {
    let metrics = run(&Bench::new(), "weight = \"E4M3\"\nskip_last = 1", "run");
    let rounded: Vec<&String> =
        metrics.keys().filter(|name| name.starts_with("quant/weight/sqnr_db/")).collect();
    assert_eq!(rounded, ["quant/weight/sqnr_db/wte.weight"]);
}

/// Scaled by the tensor's, row's or block's own largest value, E3M4 keeps its 37 dB; unscaled, small weights drown.
#[test]
fn every_scaling_rule_keeps_the_sqnr_of_small_weights() {
    let bench = Bench::new();
    let sqnr = |scaling: &str| {
        let metrics = run(&bench, &format!("weight = \"E3M4\"\n{scaling}"), scaling);
        numbers(&metrics["quant/weight/sqnr_db"])[0]
    };
    let unscaled = sqnr("block = \"none\"");
    assert!(unscaled < 20.0, "{unscaled}");
    for scaling in [
        "block = \"tensor\"",
        "block = \"row\"",
        "block = 4",
        "block = 3",
        "scaling = { amax = \"delayed\", window = 2 }",
        "scaling = { amax = \"static\" }",
        "scaling = { pow2 = true }",
    ] {
        let scaled = sqnr(scaling);
        assert!(scaled > 33.0, "{scaling}: {scaled}");
    }
}

/// Steps too small for fp32 move nothing; steps too small for the grid move values, but no code.
#[test]
fn stalled_updates_and_flipped_codes_are_counted() {
    let bench = Bench::new();
    let rate = |lr: &str, name: &str, out: &str| {
        let file = run_file("weight = \"E4M3\"")
            .replace("lr = 0.01\nmin_lr = 0.001", &format!("lr = {lr}\nmin_lr = {lr}"));
        bench.write("run.toml", &file);
        let outcome =
            bench.host(&["run", "run.toml", "--quiet", "--out", out, "--set", "optimizer.weight_decay=0.0"]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let values = numbers(&bench.metrics(out)[name]);
        assert_eq!(values.len(), 6);
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert_eq!(rate("1e-30", "update/bit_stall_rate", "a"), 1.0);
    assert_eq!(rate("1e-30", "update/flip_rate", "b"), 0.0);
    assert!(rate("1e-30", "update/zero_update_frac", "c") > 0.5);
    // Adam's steps are about lr: a hundredth of the weights' 0.02 is less than half of E4M3's spacing there, mostly.
    let (stalled, unchanged) =
        (rate("1e-4", "update/bit_stall_rate", "d"), rate("1e-4", "update/zero_update_frac", "e"));
    assert!((0.5..1.0).contains(&stalled) && unchanged < 0.01, "{stalled}, {unchanged}");
    let moved = rate("0.05", "update/flip_rate/h.0.mlp.c_fc.weight", "f");
    assert!(moved > 0.3, "{moved}");
}

/// docs/numerics.md, section 10.2: steps far below the spacing move nothing by rounding to nearest, and do by
/// stochastic rounding.
#[test]
fn without_master_weights_small_steps_need_stochastic_rounding() {
    let bench = Bench::new();
    // In narrower formats many weights are zero, and a change of a zero's sign is a flip.
    for format in ["E0M7", "E1M6", "E2M5", "E3M2", "E3M4", "E4M3", "E5M2", "E6M1", "E7M0", "INT8"] {
        let flips = |rounding: &str| {
            let quant =
                format!("weight = \"{format}\"\nmaster_weights = \"none\"\nweight_rounding = \"{rounding}\"");
            // Adam's steps are about lr, a small part of any format's spacing at the weights' 0.02.
            let file =
                run_file(&quant).replace("lr = 0.01\nmin_lr = 0.001", "lr = 0.00001\nmin_lr = 0.00001");
            let out = format!("{format}-{rounding}");
            let metrics = run_text(&bench, &file.replace("warmup_steps = 2", "warmup_steps = 0"), &out);
            let rates = numbers(&metrics["update/flip_rate"]);
            assert_eq!(rates.len(), 6);
            rates.iter().sum::<f64>() / 6.0
        };
        let (nearest, stochastic) = (flips("nearest-even"), flips("stochastic"));
        assert!(nearest < 0.01, "{format}: {nearest}");
        assert!(stochastic > 0.002 && stochastic > 3.0 * nearest, "{format}: {stochastic}, {nearest}");
    }
}

/// The saved weights of quantized layers are values of their formats, others are not rounded; the loss is that of a
/// run with master weights until the first update.
#[test]
fn without_master_weights_the_weights_lie_on_the_grid() {
    let bench = Bench::new();
    let none = run(&bench, "weight = \"E3M4\"\nmaster_weights = \"none\"", "none");
    let fp32 = run(&bench, "weight = \"E3M4\"\nexclude = [\"wte*\"]", "fp32");
    let without_head = run(
        &bench,
        "weight = \"E3M4\"\nexclude = [\"wte*\"]\nmaster_weights = \"none\"\nstored_scale = { rule = \"dynamic\", margin = 0 }",
        "without",
    );
    assert_eq!(fp32["train/loss"][0], without_head["train/loss"][0]);
    assert_ne!(fp32["train/loss"][1], without_head["train/loss"][1]);
    assert_eq!(none["quant/weight/sqnr_db"].len(), 6);
    for (run, on_grid) in [("none", true), ("fp32", false)] {
        let bytes = fs::read(bench.path(run).join("weights.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        // An 8-bit format has at most 128 magnitudes: tensors with more elements tell.
        for (name, tensor) in tensors.tensors().into_iter().filter(|(_, tensor)| tensor.data().len() > 512) {
            let (values, _) = tensor.data().as_chunks::<4>();
            let magnitudes: BTreeSet<u32> =
                values.iter().map(|bytes| u32::from_le_bytes(*bytes) & 0x7fff_ffff).collect();
            assert_eq!(magnitudes.len() <= 128, on_grid, "{run} {name}: {}", magnitudes.len());
        }
    }
}

#[test]
fn each_fault_of_a_quantization_rule_is_placed() {
    let bench = Bench::new();
    let mut page = String::new();
    for quant in [
        "grad = \"E9M9\"",
        "weight = \"E4M3\"\n[[quant.layer]]\nmatch = \"*.mpl.*\"",
        "grad = \"E4M3\"\nmaster_weights = \"none\"",
        "weight = \"E4M3\"\nactivation = \"E4M3\"\naccumulate = { bits = 13, group = 32, promote = 48 }",
        "weight = \"E4M3\"\nactivation = \"E4M3\"\naccumulate = { bits = 13, groups = 32 }",
        "weight = \"E4M3\"\naccumulate = \"hopper_fp8\"",
        "weight = \"E4M3\"\nactivation = \"E4M3\"\naccumulate = { bits = 13, group = 32, exact = 12 }",
        "weight = \"E7M0\"\nactivation = \"E7M0\"\naccumulate = \"hopper_fp8\"",
    ] {
        bench.write("run.toml", &run_file(quant));
        let outcome = bench.host(&["check", "run.toml"]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        page += &format!("=== {}\n{}\n", quant.replace('\n', "; "), bench.redacted(&outcome.stderr));
    }
    assert_snapshot!("quantization_faults", page);
}
