//! Weights without master weights: their changes, by the rule of their scales (docs/numerics.md, section 5.4).

use std::{collections::BTreeMap, fs};

use altgrad_end_to_end::{Bench, TINY};

/// The weights of linear layers after a run with steps of `ulp` codes, to nearest, and its metrics.
struct Trained {
    weights: BTreeMap<String, Vec<f32>>,
    metrics: BTreeMap<String, Vec<String>>,
}

fn train(bench: &Bench, out: &str, rule: &str, ulp: f64) -> Trained {
    let text = TINY
        .replace("max_steps = 6", "max_steps = 40")
        .replace(
            "lr = 0.01\nmin_lr = 0.001\nwarmup_steps = 2",
            "lr = 0.001\nmin_lr = 0.001\nwarmup_steps = 0",
        )
        .replace(
            "name = \"adamw\"",
            &format!("name = \"stiffness-adamw\"\nweight_decay = 0.0\nulp_per_lr = {:?}", ulp / 1e-3),
        )
        .replace(
            "weight = \"E5M2\"",
            &format!("weight = \"E5M2\"\nmaster_weights = \"none\"\nstored_scale = {{ rule = \"{rule}\" }}"),
        );
    bench.write("run.toml", &(text + "\n[[sink]]\nname = \"csv\"\n"));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", out]);
    assert_eq!(outcome.code, 0, "{rule}: {}", outcome.stderr);
    let bytes = fs::read(bench.path(out).join("weights.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let matrices = tensors.tensors().into_iter().filter(|(name, tensor)| {
        tensor.shape().len() == 2 && (name.contains("attn") || name.contains("mlp") || name.contains("wte"))
    });
    let values = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let weights = matrices.map(|(name, tensor)| (name, values(tensor.data()))).collect();
    Trained { weights, metrics: bench.metrics(out) }
}

fn sum(values: &[String]) -> f64 {
    values.iter().filter(|value| !value.is_empty()).map(|value| value.parse::<f64>().unwrap()).sum()
}

/// Steps far below half a code, to nearest: no weight moves, unless the scale follows the largest weight. In that case
/// whole weights are multiplied by one factor, which no metric of codes shows, but the drift does.
#[test]
fn small_steps_move_weights_only_by_a_dynamic_scale() {
    let bench = Bench::new();
    for rule in ["fixed", "power_of_two", "dynamic"] {
        let start = train(&bench, &format!("{rule}-start"), rule, 0.0);
        let end = train(&bench, &format!("{rule}-end"), rule, 0.05);
        assert!(end.weights.len() >= 5, "{:?}", end.weights.keys());
        let mut moved = 0;
        for (name, values) in &end.weights {
            let ratios = values.iter().zip(&start.weights[name]).filter(|(_, before)| **before != 0.0);
            let ratios: Vec<f64> =
                ratios.map(|(after, before)| f64::from(*after) / f64::from(*before)).collect();
            let (least, most) = ratios.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            assert!(most / least - 1.0 < 1e-5, "{name}: one factor for all weights, not {least}..{most}");
            if rule != "dynamic" {
                assert_eq!((least, most), (1.0, 1.0), "{rule}: {name}");
            }
            moved += usize::from((most - 1.0).abs() > 0.01);
        }
        assert_eq!(moved > 0, rule == "dynamic", "{moved} weights stretched");
        let stalled = &end.metrics["update/bit_stall_rate"];
        assert!(stalled.iter().all(|rate| rate == "1" || rate == "1.0"), "{rule}: {stalled:?}");
        let drift = sum(&end.metrics["update/scale_drift"]);
        assert_eq!(drift > 0.01, rule == "dynamic", "{rule}: {drift}");
    }
}

/// Half the largest value of INT4 is no value of it.
#[test]
fn weights_without_updates_keep_their_scales() {
    let bench = Bench::new();
    for rule in ["fixed", "power_of_two", "dynamic"] {
        let quant = format!(
            "weight = \"INT4\"\nblock = 4\nmaster_weights = \"none\"\nstored_scale = {{ rule = \"{rule}\" }}"
        );
        let frozen = "\n[[optimizer.group]]\nmatch = \"*\"\nlr_scale = 0.0\n[[sink]]\nname = \"csv\"\n";
        bench.write("run.toml", &(TINY.replace("weight = \"E5M2\"", &quant) + frozen));
        let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", rule]);
        assert_eq!(outcome.code, 0, "{rule}: {}", outcome.stderr);
        let metrics = bench.metrics(rule);
        let drift = sum(&metrics["update/scale_drift"]);
        assert!(drift < 1e-4, "{rule}: {drift} binades");
        // A scale may change by an f32 step, and values with it.
        let rounded = sum(&metrics["update/recode_rounded_frac"]);
        assert!(rounded == 0.0, "{rule}: {rounded} of all elements");
    }
}

#[test]
fn scales_that_change_are_movement() {
    let bench = Bench::new();
    let trained = train(&bench, "run", "power_of_two", 20.0);
    let metrics = &trained.metrics;
    let drift = sum(&metrics["update/scale_drift"]);
    // Elements that are stored by another power of two each move by whole binades.
    let recoded = sum(&metrics["update/recoded_frac"]);
    assert!(recoded > 0.0 && drift >= recoded, "{drift} binades, {recoded} of all elements");
    let rounded = sum(&metrics["update/recode_rounded_frac"]);
    assert!(rounded <= recoded, "{rounded} of {recoded}");
    let layers = bench.read("run/layers.csv");
    assert!(layers.contains(",update/scale_drift,"), "{}", layers.lines().nth(1).unwrap());
}

#[test]
fn rules_without_effect_are_refused() {
    let bench = Bench::new();
    let refused = |quant: &str| {
        bench.write("run.toml", &TINY.replace("weight = \"E5M2\"", quant));
        let outcome = bench.host(&["check", "run.toml"]);
        assert_eq!(outcome.code, 2, "{quant}: {}", outcome.stderr);
        outcome.stderr
    };
    for quant in [
        "weight = \"E5M2\"\nstored_scale = { rule = \"fixed\" }",
        "weight = \"E5M2\"\nmaster_weights = \"none\"\nblock = \"none\"\nstored_scale = { rule = \"fixed\" }",
    ] {
        assert!(refused(quant).contains("`quant.stored_scale` has no effect"), "{quant}");
    }
    let stderr = refused("weight = \"E5M2\"\nmaster_weights = \"none\"\nscaling = { amax = \"delayed\" }");
    assert!(stderr.contains("`quant.scaling` does not apply"), "{stderr}");
}
