//! Alerts as a user meets them: in the file of events, in sinks, in `run.json`; and that they change nothing.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY, built, plugin};
use serde_json::Value;

/// Weights of about 0.02 in a format made to hold 0.001 at most: nearly all of them saturate.
const SATURATING: &str = "weight = \"E1M6\"\nscaling = { amax = \"static\", static_amax = 0.001 }";

/// A tiny run with the CSV sink, `quant` in its section and `more` after it.
fn bench(quant: &str, more: &str) -> Bench {
    let bench = Bench::new();
    let file = TINY.replace("weight = \"E5M2\"", quant);
    bench.write("tiny.toml", &format!("{file}\n{more}\n[[sink]]\nname = \"csv\"\n"));
    bench
}

fn run(bench: &Bench, out: &str, sets: &[&str]) -> Outcome {
    let mut args = vec!["run", "tiny.toml", "--out", out];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    bench.host(&args)
}

fn status(bench: &Bench, out: &str) -> Value {
    serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap()
}

fn events(bench: &Bench, out: &str) -> Vec<Value> {
    let text = bench.read(&format!("{out}/events.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

#[test]
fn weights_that_saturate_fire_once_a_cooldown_and_name_their_layer() {
    let bench = bench(SATURATING, "[alerts]\npatience = 2\ncooldown_s = 1000.0");
    let outcome = run(&bench, "out", &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let all = events(&bench, "out");
    for kind in ["overflow", "code_saturation"] {
        let events = of_kind(&all, kind);
        assert_eq!(events.len(), 1, "{kind}: {all:?}");
        let event = events[0];
        assert_eq!((event["step"].as_u64(), event["level"].as_str()), (Some(1), Some("warn")));
        let place = event["place"].as_str().unwrap();
        assert!(place.starts_with("quant/weight/overflow_rate/") && place.ends_with(".weight"), "{place}");
        assert!(event["value"].as_f64().unwrap() > 0.5 && event["text"].as_str().unwrap().contains(place));
        assert!(outcome.stderr.contains(&format!("alert at step 1 ({kind}): ")), "{}", outcome.stderr);
        assert_eq!(status(&bench, "out")["alerts"][kind], 1);
    }
    assert!(
        outcome.stdout.contains("overflow 1") && outcome.stdout.contains("diverged"),
        "{}",
        outcome.stdout
    );

    // Without a cooldown every step fires from the second on.
    assert_eq!(run(&bench, "each", &["alerts.cooldown_s=0"]).code, 0);
    let steps: Vec<u64> = of_kind(&events(&bench, "each"), "overflow")
        .iter()
        .map(|event| event["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, [1, 2, 3, 4, 5]);
    assert_eq!(status(&bench, "each")["alerts"]["overflow"], 5);
}

/// gpt-tiny as the run files in configs/small have it, for 110 steps.
fn small(bench: &Bench, name: &str, sets: &[&str]) -> (Vec<String>, Value) {
    let file = format!("{}/../../configs/small/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let short = [
        "train.max_steps=110",
        "train.warmup_steps=20",
        "alerts.no_learning_steps=60",
        "alerts.cooldown_s=0",
        "metrics.histograms_every=20",
        "shadow.every=20",
    ];
    let mut args = vec!["run", &file, "--quiet", "--out", name];
    args.extend(short.iter().chain(sets).flat_map(|set| ["--set", set]));
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let status = status(bench, name);
    let alerts = status["alerts"].as_object().unwrap().keys().cloned().collect();
    (alerts, status)
}

/// docs/numerics.md, section 8: codes that stay for a step, underflow and heavy tails are normal; updates that rounding
/// removes are not.
#[test]
#[ignore = "--all: long runs"]
fn runs_that_learn_raise_nothing_and_one_that_stalls_says_so() {
    let bench = Bench::new();
    for name in ["fp32_baseline", "e5m2_fp8", "e1m6", "e3m4"] {
        assert_eq!(small(&bench, name, &[]).0, [""; 0], "{name}");
    }
    let stochastic = ["quant.master_weights=none", "quant.weight_rounding=stochastic"];
    assert_eq!(small(&bench, "e4m3_e5m2_hybrid", &stochastic).0, [""; 0], "without master weights");
    let (alerts, status) = small(&bench, "e7m0_no_master", &[]);
    assert_eq!(alerts, ["bit_stall", "no_learning"], "{status}");
}

#[test]
fn alerts_change_nothing_in_the_training() {
    let bench = bench(SATURATING, "[alerts]\npatience = 1\ncooldown_s = 0");
    let kinds =
        ["bit_stall", "overflow", "underflow", "code_saturation", "kurtosis", "gradient_cosine", "loss_rise"];
    let off: Vec<String> = kinds.iter().map(|kind| format!("alerts.{kind}_threshold=off")).collect();
    let mut off: Vec<&str> = off.iter().map(String::as_str).collect();
    off.extend(["alerts.divergence_patience=0", "alerts.no_learning_steps=0"]);
    let (on, silent) = (run(&bench, "on", &[]), run(&bench, "off", &off));
    assert_eq!((on.code, silent.code), (0, 0), "{}{}", on.stderr, silent.stderr);
    assert!(status(&bench, "on")["alerts"].as_object().unwrap().len() > 1);
    assert_eq!(status(&bench, "off")["alerts"].as_object().unwrap().len(), 0);
    assert!(silent.stdout.contains("none") && !silent.stderr.contains("alert"), "{}", silent.stdout);
    for file in ["metrics.csv", "weights.safetensors"] {
        let bytes = |out: &str| fs::read(bench.path(out).join(file)).unwrap();
        assert!(bytes("on") == bytes("off"), "{file}");
    }
}

#[test]
fn a_sink_gets_every_event() {
    let bench = Bench::new();
    for library in ["adamw.so", "e1m6.so"] {
        bench.add_plugin(&plugin(library));
    }
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    let file = TINY.replace("weight = \"E5M2\"", SATURATING);
    let more = "[plugins]\ndir = \"plugins\"\n[alerts]\npatience = 1\n[[sink]]\nname = \"bad\"\n";
    bench.write("tiny.toml", &format!("{file}\n{more}"));
    let outcome = bench.host_with(&["run", "tiny.toml", "--out", "out"], &[("ALTGRAD_ALERTS", "alerts.txt")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let expected: Vec<String> = events(&bench, "out")
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap();
            format!("{} {} {}: {}", event["step"], text("level"), text("kind"), text("text"))
        })
        .collect();
    let got = bench.read("alerts.txt");
    assert_eq!(got.lines().collect::<Vec<_>>(), expected);
    assert!(got.contains("0 warn overflow: ") && got.contains("0 info best: "), "{got}");
}

#[test]
fn a_loss_that_stays_nan_ends_the_run_after_the_patience_it_was_given() {
    let bench = bench("weight = \"E5M2\"", "");
    let sets = ["train.lr=1e30", "train.grad_clip=0", "train.max_steps=100", "quant.rounding=toward-zero"];
    let sets = [&sets[..], &["alerts.nan_patience=4", "alerts.nan_cooldown_s=0"]].concat();
    let outcome = run(&bench, "out", &sets);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    let all = events(&bench, "out");
    let last = all.last().unwrap();
    assert_eq!((last["kind"].as_str(), last["level"].as_str()), (Some("failed"), Some("error")));
    assert!(last["text"].as_str().unwrap().contains("NaN or infinite for 4 steps"), "{last}");
    let losses = of_kind(&all, "nan_loss");
    assert!(!losses.is_empty() && losses.iter().all(|event| event["level"] == "error"), "{all:?}");
    let gradients = of_kind(&all, "nan_grad");
    // Both name the tensor it began with, not the sums that show it.
    assert!(
        gradients[0]["text"].as_str().unwrap().contains("`grad_norm_l2/wte.weight`; it began at step 1 in ")
    );
    assert_eq!(gradients[0]["place"], "h.0.mlp, gradient of residual", "{all:?}");
    assert_eq!(losses[0]["place"], gradients[0]["place"], "{all:?}");
    assert!(outcome.stderr.contains("(nan_loss): the training loss is NaN"), "{}", outcome.stderr);
    let status = status(&bench, "out");
    assert_eq!((status["status"].as_str(), status["diverged"].as_bool()), (Some("not_finite"), Some(true)));
    assert!(status["alerts"]["nan_loss"].as_u64().unwrap() >= 1);
    // 0 is never: the run continues to its end.
    let mut patient = sets.clone();
    patient.extend(["alerts.nan_patience=0", "train.max_steps=20"]);
    let outcome = run(&bench, "patient", &patient);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("ended with NaN or infinity in its loss or weights"),
        "{}",
        outcome.stderr
    );
    let status = self::status(&bench, "patient");
    assert_eq!((&status["steps"], &status["status"]), (&20.into(), &"not_finite".into()));
    assert_eq!((&status["not_finite"], &status["final_val_loss"]), (&true.into(), &Value::Null));
    assert!(status["diverged"] == true && status["diverged_step"].as_u64() >= Some(1), "{status:#}");
    assert!(status["error"].as_str().unwrap().starts_with("the run ended with NaN"), "{status:#}");
    // Every reader shows the same state.
    let shown = bench.host(&["top", "--once", "out", "patient"]).stdout;
    assert_eq!(shown.lines().filter(|line| line.contains("not finite")).count(), 2, "{shown}");
}

#[test]
fn a_rising_loss_flags_the_run_and_stops_nothing() {
    let bench = bench("weight = \"E5M2\"", "[alerts]\ndivergence_patience = 1");
    let wild = ["train.eval_interval=1", "train.lr=3.0", "train.min_lr=3.0", "train.warmup_steps=0"];
    let outcome = run(&bench, "wild", &wild);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let wild = status(&bench, "wild");
    assert_eq!((wild["status"].as_str(), wild["diverged"].as_bool()), (Some("completed"), Some(true)));
    assert_eq!(wild["steps"], 6);
    let all = events(&bench, "wild");
    assert_eq!(of_kind(&all, "divergence")[0]["step"], wild["diverged_step"]);
    assert!(outcome.stdout.contains("at step"), "{}", outcome.stdout);

    assert_eq!(run(&bench, "calm", &[]).code, 0);
    let calm = status(&bench, "calm");
    assert_eq!((calm["diverged"].as_bool(), calm["diverged_step"].is_null()), (Some(false), true));
    let all = events(&bench, "calm");
    let last_best = *of_kind(&all, "best").last().unwrap();
    assert_eq!((&last_best["step"], &last_best["value"]), (&calm["best_val_step"], &calm["best_val_loss"]));
}

#[test]
fn run_json_says_what_was_computed_in_what() {
    let quant = "weight = \"E4M3\"\nactivation = \"E3M4\"\ngrad = \"E5M2\"\ngrad_rounding = \"stochastic\"\n\
        ste = \"clipped\"\nexclude = [\"wte*\"]\nblock = 4\nscaling = { pow2 = true }\n\
        [[quant.layer]]\nmatch = \"*.mlp.*\"\ngrad = \"none\"";
    let bench = bench(quant, "");
    assert_eq!(run(&bench, "out", &[]).code, 0);
    let computed = &status(&bench, "out")["computed"];
    assert_eq!(computed["device"], "cpu");
    assert_eq!(computed["matrix_products"]["operands_without_format"], "f32");
    assert_eq!(computed["master_weights"], "f32");
    assert_eq!(computed["optimizer"]["states"]["exp_avg"]["stored_as"], "f32");
    assert!(computed["shadow_gradients"].is_null());
    let layers = computed["linear_layers"].as_array().unwrap();
    let names = |entry: &Value| -> Vec<String> {
        let names = entry["layers"].as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().trim_end_matches(".weight").to_string()).collect()
    };
    assert_eq!(layers.len(), 3, "{computed:#}");
    assert_eq!(names(&layers[0]), ["h.0.attn.c_attn", "h.0.attn.c_proj"]);
    assert_eq!(names(&layers[1]), ["h.0.mlp.c_fc", "h.0.mlp.c_proj"]);
    assert_eq!(names(&layers[2]), ["wte"]);
    let attention = &layers[0];
    let scaling = serde_json::json!({ "block": 4, "amax": "dynamic", "margin": 0, "pow2": true });
    let said = |format: &str, rounding: &str| {
        serde_json::json!({
            "format": format,
            "bits": 8,
            // Blocks of four share an f32.
            "bits_per_value": 16.0,
            "rounding": rounding,
            "scaling": scaling,
            "rounded_by": "the format's CPU function",
        })
    };
    let with_ste = |mut said: Value| {
        said["ste"] = "clipped".into();
        said
    };
    assert_eq!(attention["weight"], with_ste(said("E4M3", "nearest-even")));
    assert_eq!(attention["activation"], with_ste(said("E3M4", "nearest-even")));
    assert_eq!(attention["grad"], said("E5M2", "stochastic"));
    assert_eq!((&layers[1]["grad"], &layers[2]["weight"]), (&"f32".into(), &"f32".into()));
}

/// A folder in place of the file of events represents a disk that takes no events.
#[test]
fn events_that_cannot_be_written_are_a_fault_and_cost_no_training() {
    let bench = bench("weight = \"E5M2\"", "[checkpoint]\nevery = 2");
    let sets = ["run", "tiny.toml", "--quiet", "--out", "out"];
    assert_eq!(bench.host(&[&sets[..], &["--max-steps", "2"]].concat()).code, 0);
    std::fs::remove_file(bench.path("out/events.jsonl")).unwrap();
    std::fs::create_dir(bench.path("out/events.jsonl")).unwrap();
    let outcome = bench.host(&[&sets[..], &["--resume"]].concat());
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("events are missing from their file"), "{}", outcome.stderr);
    let status = status(&bench, "out");
    assert_eq!((status["status"].as_str(), status["steps"].as_u64()), (Some("completed"), Some(6)));
    assert!(status["faults"][0].as_str().unwrap().starts_with("events are missing"), "{status:#}");
}

/// The alerts that `alerts evaluate` finds in a run: kinds and steps.
fn evaluated(bench: &Bench, args: &[&str]) -> Vec<(String, u64)> {
    let outcome = bench.host(&[&["alerts", "evaluate", "--json", "out"], args].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let alerts = found["runs"][0]["alerts"].as_array().unwrap().clone();
    let alert =
        |alert: &Value| (alert["kind"].as_str().unwrap().to_string(), alert["step"].as_u64().unwrap());
    alerts.iter().map(alert).collect()
}

#[test]
fn a_recorded_run_raises_the_same_alerts_again_and_others_with_other_thresholds() {
    let bench = bench(SATURATING, "[alerts]\npatience = 2\ncooldown_s = 1000.0");
    let outcome = run(&bench, "out", &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let told: Vec<(String, u64)> = events(&bench, "out")
        .iter()
        .filter(|event| event["level"] == "warn" || event["level"] == "error")
        .map(|event| (event["kind"].as_str().unwrap().to_string(), event["step"].as_u64().unwrap()))
        .collect();
    assert!(told.len() >= 2, "{told:?}");
    assert_eq!(evaluated(&bench, &[]), told);
    let without =
        evaluated(&bench, &["--set", "code_saturation_threshold=off", "--set", "alerts.patience=3"]);
    assert!(without.iter().all(|(kind, _)| kind != "code_saturation"), "{without:?}");
    assert!(without.contains(&("overflow".to_string(), 2)), "{without:?}");
}

#[test]
fn evaluating_alerts_says_what_it_cannot_use() {
    let bench = bench("weight = \"E5M2\"", "");
    assert_eq!(run(&bench, "out", &["run.name=one"]).code, 0);
    for (args, code, said) in [
        (&["out", "--set", "patience"][..], 2, "an override without `=` sets nothing"),
        (&["out", "--set", "patiens=3"], 2, "unknown key `alerts.patiens`"),
        (&["out", "--baseline", "two"], 2, "no run has a baseline called `two`"),
        (&["nowhere"], 2, "no readable run was found in the named paths"),
    ] {
        let outcome = bench.host(&[&["alerts", "evaluate"], args].concat());
        assert_eq!(outcome.code, code, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
    }
    let outcome = bench.host(&["alerts", "evaluate", "out", "--twin", "one"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // Four steps are less than a window of the comparison: there is no outcome.
    assert!(outcome.stdout.contains("0 healthy runs"), "{}", outcome.stdout);
}
