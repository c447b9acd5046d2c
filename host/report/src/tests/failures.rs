//! Classes of failures: each with a run that shows it, its evidence, and a run that comes close and does not.

use std::{fmt::Write as _, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{failures, find::find, run::Run};

/// Steps of the runs.
const STEPS: u32 = 400;
/// A layer of a block.
const LAYER: &str = "h.0.mlp.c_fc.weight";

/// A column of a file: a metric and its value by step.
type Column<'a> = (&'a str, &'a dyn Fn(u32) -> f64);

/// A falling loss and a steady gradient.
const HEALTHY: [Column<'static>; 2] =
    [("train/loss", &|step| 3.0 - f64::from(step) / 200.0), ("train/grad_norm", &|_| 1.0)];

/// A run with these columns, its own after those of a healthy one; `status` is added to `run.json`, `quant` to the run
/// file.
fn run(own: &[Column<'_>], layers: &[Column<'_>], status: &Value, quant: &str) -> Run {
    let folder = TempDir::new().unwrap();
    let healthy = HEALTHY.into_iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
    let columns: Vec<Column<'_>> = healthy.chain(own.iter().copied()).collect();
    let rows = |columns: &[Column<'_>], layer: &str| {
        let mut text = String::new();
        for step in 0..STEPS {
            let cells = columns.iter().map(|(_, value)| value(step).to_string());
            writeln!(text, "{step}{layer},{}", cells.collect::<Vec<_>>().join(",")).unwrap();
        }
        text
    };
    let head = |columns: &[Column<'_>]| columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("metrics.csv", format!("step,{}\n{}", head(&columns), rows(&columns, "")));
    if !layers.is_empty() {
        write("layers.csv", format!("step,layer,{}\n{}", head(layers), rows(layers, &format!(",{LAYER}"))));
    }
    write("config.toml", format!("[run]\nname = \"one\"\n[train]\nmax_steps = {STEPS}\n[quant]\n{quant}\n"));
    let mut run = json!({
        "name": "one", "status": "completed", "steps": STEPS, "unigram_entropy": 3.5,
        "environment": { "device": "cpu", "plugins": [] },
    });
    run.as_object_mut().unwrap().extend(status["run"].as_object().cloned().unwrap_or_default());
    write("run.json", run.to_string());
    let events = status["events"].as_array().into_iter().flatten();
    write("events.jsonl", events.map(|event| format!("{event}\n")).collect());
    let mut found = find(&[folder.path().to_path_buf()]);
    assert_eq!(found.runs.len(), 1);
    found.runs.remove(0)
}

/// Failures of such a run.
fn of(own: &[Column<'_>], layers: &[Column<'_>], status: &Value, quant: &str) -> Vec<(String, String)> {
    let found = failures::of(&run(own, layers, status, quant));
    found.into_iter().map(|found| (found.class.to_string(), found.evidence)).collect()
}

/// The only failure of a run with these columns.
fn one(own: &[Column<'_>], layers: &[Column<'_>]) -> (String, String) {
    let found = of(own, layers, &Value::Null, "");
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn said(class: &str, evidence: &str) -> (String, String) {
    (class.to_string(), evidence.to_string())
}

#[test]
fn a_run_that_trains_has_no_failure() {
    assert_eq!(of(&[], &[], &Value::Null, ""), []);
    let near: [Column<'_>; 4] = [
        ("update/zero_update_frac", &|_| 0.98),
        ("grad_cos_sim", &|_| 0.51),
        ("update/movement_loss", &|_| 0.49),
        ("quant/overflow_rate", &|_| 0.5),
    ];
    let layers: [Column<'_>; 3] = [
        ("dead_frac", &|_| 0.98),
        ("weights/stable_rank", &|step| if step == 0 { 10.0 } else { 1.1 }),
        ("quant/weight/overflow_rate", &|_| 0.49),
    ];
    assert_eq!(
        of(&near, &layers, &Value::Null, ""),
        [],
        "many elements overflow, and no alert says that it matters"
    );
}

#[test]
fn losses_that_do_not_fall() {
    let never = one(&[("train/loss", &|_| 3.5)], &[]);
    let evidence = "3.5000 nats/token from step 360 on; the corpus's unigram entropy is 3.5000";
    assert_eq!(never, said("never learned", evidence));
    let (class, evidence) = one(&[("train/loss", &|step| (3.0 - f64::from(step) / 200.0).max(2.5))], &[]);
    assert_eq!(class, "plateau");
    assert!(
        evidence.starts_with("2.5000 nats/token from step 3")
            && evidence.contains("2.5000 before step 192, half-way"),
        "{evidence}"
    );
    let (class, evidence) = one(
        &[("train/loss", &|step| if step == 77 { f64::NAN } else { 3.0 - f64::from(step) / 200.0 })],
        &[],
    );
    assert_eq!((class.as_str(), evidence.as_str()), ("NaN", "step 77: `train/loss` is not finite"));
}

/// From the step on at which the alert `no_learning` is due: after warm-up and `alerts.no_learning_steps`.
#[test]
fn a_run_that_is_too_short_has_not_failed_to_learn() {
    let judged = |keys: &str| {
        let run = run(&[("train/loss", &|_| 3.5)], &[], &Value::Null, keys);
        let is_found = failures::of(&run).iter().any(|found| found.class == "never learned");
        let is_unknown =
            failures::unknown(&run).iter().any(|class| class.starts_with("never learned (shorter"));
        assert!(is_found != is_unknown, "{keys}");
        is_found
    };
    assert!(judged("") && judged("[alerts]\nno_learning_steps = 399\n"));
    assert!(judged("[alerts]\nno_learning_steps = 0\n"), "without the alert its default counts");
    assert!(!judged("[alerts]\nno_learning_steps = 400\n"));
}

#[test]
fn a_stall_is_unknown_without_the_metric_that_shows_it() {
    let rates: [Column<'_>; 2] = [("quant/overflow_rate", &|_| 0.0), ("update/bit_stall_rate", &|_| 0.999)];
    let movement: Column<'_> = ("update/movement_loss", &|_| 0.1);
    let unknown = |own: &[Column<'_>], quant: &str| {
        let unknown = failures::unknown(&run(own, &[], &Value::Null, quant));
        unknown.into_iter().filter(|class| class.starts_with("stall")).collect::<Vec<_>>()
    };
    assert_eq!(unknown(&rates, ""), ["stall (metrics.histograms_every)"]);
    assert_eq!(unknown(&[rates[0], movement], ""), [""; 0]);
    assert_eq!(unknown(&[rates[0], movement], "master_weights = \"none\""), ["stall (metrics.every)"]);
    assert_eq!(unknown(&rates, "master_weights = \"none\""), [""; 0]);
}

#[test]
fn updates_and_gradients_that_are_sparse() {
    let found = one(&[("update/zero_update_frac", &|step| if step < 200 { 0.0 } else { 0.995 })], &[]);
    assert_eq!(found, said("update sparsity", "99.5 % of the elements do not move from step 360 on"));
    let (class, evidence) = one(&[], &[("dead_frac", &|_| 1.0)]);
    assert_eq!(class, "gradient sparsity");
    assert!(
        evidence.starts_with("100.0 % of the gradient of `h.0.mlp.c_fc.weight` is below 1e-8 from step 3"),
        "{evidence}"
    );
    let (class, evidence) = one(&[("grad_cos_sim", &|_| 0.49)], &[]);
    assert_eq!(
        (class.as_str(), evidence.as_str()),
        ("gradient direction", "0.490 is its cosine to the gradient of fp32 from step 360 on")
    );
    let norm: Column<'_> = ("train/grad_norm", &|step| if step == 5 { 100.0 } else { 0.001 });
    let evidence = "its norm is 1.00e-3 from step 360 on, and was 1.00e2 at step 5";
    assert_eq!(one(&[norm], &[]), said("vanishing gradient", evidence));
}

#[test]
fn weights_that_stall_saturate_or_collapse() {
    let found = of(&[("update/bit_stall_rate", &|_| 0.999)], &[], &Value::Null, "master_weights = \"none\"");
    assert_eq!(
        found,
        [said("stall", "codes that stay although they have a gradient: 99.9 % from step 360 on")]
    );
    assert_eq!(
        of(&[("update/bit_stall_rate", &|_| 0.999)], &[], &Value::Null, ""),
        [],
        "master weights add up"
    );
    let found = one(&[("update/movement_loss", &|_| 0.75)], &[]);
    assert_eq!(found, said("stall", "rounding removes 75.0 % of the movement of the weights up to step 399"));
    let (class, evidence) = one(&[], &[("quant/weight/overflow_rate", &|_| 0.6)]);
    assert_eq!(class, "saturation");
    assert!(
        evidence
            .starts_with("60.0 % of a tensor of `h.0.mlp.c_fc.weight` share the largest code from step 3"),
        "{evidence}"
    );
    let found = one(&[], &[("weights/stable_rank", &|step| if step == 0 { 10.0 } else { 0.9 })]);
    let evidence = "the stable rank of `h.0.mlp.c_fc.weight` is 0.9 at step 399, and was 10.0 at first";
    assert_eq!(found, said("rank collapse", evidence));
}

#[test]
fn overflow_that_an_alert_told_of_and_that_lasts() {
    let overflow =
        json!({ "events": [{ "step": 7, "level": "warn", "kind": "overflow", "text": "too large" }] });
    let of_rate = |rate: &dyn Fn(u32) -> f64| of(&[("quant/overflow_rate", rate)], &[], &overflow, "");
    let evidence = "elements beyond the largest value: 2.0 % from step 360 on; step 7: too large";
    assert_eq!(of_rate(&|_| 0.02), [said("overflow", evidence)]);
    assert_eq!(of_rate(&|step| if step == 7 { 1.0 } else { 0.0 }), [], "one step of overflow");
}

#[test]
fn runs_that_diverge_or_stop() {
    let rise =
        json!({ "events": [{ "step": 90, "level": "error", "kind": "loss_rise", "text": "it rose" }] });
    assert_eq!(of(&[], &[], &rise, ""), [said("divergence", "step 90: it rose")]);
    let stopped = json!({ "run": { "status": "failed", "error": "no disk" } });
    assert_eq!(of(&[], &[], &stopped, ""), [said("early stop", "after 400 of 400 steps: no disk")]);
}
