//! `evaluate`: a trained model measured as its run measured it, and evaluations of the whole validation split.

use std::{collections::BTreeMap, fs, path::Path};

use altgrad_end_to_end::{Bench, TINY};
use insta::assert_snapshot;
use serde_json::Value;

/// A bench with a finished run of this run file in `runs/tiny`.
fn trained(config: &str) -> Bench {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{config}\n[[sink]]\nname = \"csv\"\n[checkpoint]\nevery = 2\n"));
    run(&bench, &[]);
    bench
}

fn run(bench: &Bench, more: &[&str]) {
    let outcome = bench.host(&[&["run", "tiny.toml", "--quiet"], more].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[track_caller]
fn evaluate(bench: &Bench, args: &[&str]) -> Value {
    let outcome = bench.host(&[&["evaluate", "--json"], args].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn status(bench: &Bench, run: &str) -> Value {
    serde_json::from_str(&bench.read(&format!("{run}/run.json"))).unwrap()
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_run_is_evaluated_to_the_bit_of_its_own_evaluation() {
    let rounded = "activation = \"E4M3\"\nactivation_rounding = \"stochastic\"\n";
    for quant in [
        "",
        rounded,
        "activation = \"E4M3\"\nscaling = { amax = \"delayed\", window = 2 }\n",
        "activation = \"E4M3\"\nscaling = { amax = \"static\" }\n",
        "master_weights = \"none\"\nrounding = \"stochastic\"\n",
    ] {
        let bench = trained(&format!("{TINY}{quant}"));
        let before = files(&bench.path("runs"));
        let found = evaluate(&bench, &["runs/tiny"]);
        let status = status(&bench, "runs/tiny");
        assert_eq!(found["loss"], status["final_val_loss"], "{quant}");
        assert_eq!(
            (&found["evaluation"], &status["final_evaluation"]),
            (&"sampled".into(), &"sampled".into())
        );
        // 2 batches of 2 windows of 8 tokens.
        assert_eq!((&found["tokens"], &status["final_val_tokens"]), (&32.into(), &32.into()));
        assert_eq!(found["step"], 6);
        assert_eq!(found["perplexity"], found["loss"].as_f64().unwrap().exp());
        // A checkpoint on the way has the loss of its step.
        let row = evaluate(&bench, &["runs/tiny/checkpoints/step-000004"]);
        let logged: f64 = bench.metrics("runs/tiny")["val/loss"][4].parse().unwrap();
        assert_eq!(row["loss"], logged, "{quant}");
        assert_eq!(evaluate(&bench, &["runs/tiny/checkpoints/last"])["loss"], found["loss"]);
        assert_eq!(before, files(&bench.path("runs")), "nothing is written");
        // The weights alone have all that an evaluation needs.
        fs::create_dir(bench.path("copy")).unwrap();
        for name in ["weights.safetensors", "config.toml"] {
            fs::copy(bench.path("runs/tiny").join(name), bench.path("copy").join(name)).unwrap();
        }
        fs::remove_dir_all(bench.path("runs")).unwrap();
        let copy = evaluate(&bench, &["copy"]);
        assert_eq!((&copy["loss"], &copy["step"]), (&found["loss"], &found["step"]), "{quant}");
    }
}

#[test]
fn weights_whose_scales_are_unknown_are_refused() {
    let bench = trained(&format!("{TINY}activation = \"E4M3\"\nscaling = {{ amax = \"delayed\" }}\n"));
    let path = bench.path("runs/tiny/weights.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|bytes| bytes == b"\"altgrad\"").unwrap();
    // As weights of an earlier version or of another program.
    bytes[at + 1] = b'x';
    fs::write(&path, &bytes).unwrap();
    for command in [&["evaluate", "runs/tiny"][..], &["sample", "runs/tiny", "--prompt", "the"]] {
        let outcome = bench.host(command);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("the scales of the weights are unknown"), "{}", outcome.stderr);
    }
    evaluate(&bench, &["runs/tiny", "--full-precision"]);
    evaluate(&bench, &["runs/tiny/checkpoints/last"]);
}

#[test]
fn damaged_weights_and_other_data_are_refused() {
    let bench = trained(TINY);
    let model = "runs/tiny/checkpoints/step-000004/model.safetensors";
    let mut bytes = fs::read(bench.path(model)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(bench.path(model), bytes).unwrap();
    let init = format!("model.init={model}");
    for args in [
        vec!["evaluate", "runs/tiny/checkpoints/step-000004"],
        vec!["run", "tiny.toml", "--out", "other", "--set", &init],
    ] {
        let outcome = bench.host(&args);
        assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("its checksum differs"), "{args:?}: {}", outcome.stderr);
    }
    // Without a checkpoint, the weights have the fingerprint of the data.
    fs::remove_dir_all(bench.path("runs/tiny/checkpoints")).unwrap();
    evaluate(&bench, &["runs/tiny"]);
    bench.write("corpus.txt", &"the quick brown fox jumps over the lazy god\n".repeat(20));
    let outcome = bench.host(&["evaluate", "runs/tiny"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the data differ from those that the model was trained on"));
}

#[test]
fn all_seeds_evaluate_the_same_windows() {
    let bench = trained(&TINY.replace("lr = 0.01", "lr = 1e-30").replace("min_lr = 0.001", "min_lr = 0"));
    let export = bench.host(&["weights", "export", "runs/tiny", "--to", "w.safetensors"]);
    assert_eq!(export.code, 0, "{}", export.stderr);
    // Equal weights that do not move: only the batches depend on the seed.
    let losses = ["1", "2", "3"].map(|seed| {
        let seed_key = format!("run.seed={seed}");
        run(&bench, &["--set", &seed_key, "--set", "model.init=w.safetensors", "--out", seed]);
        bench.metrics(seed)["val/loss"].clone()
    });
    assert_eq!((&losses[0], &losses[1]), (&losses[1], &losses[2]));
    assert_ne!(bench.metrics("1")["train/loss"], bench.metrics("2")["train/loss"]);
}

#[test]
fn the_whole_split_is_evaluated_at_the_end_always_or_where_it_costs_little() {
    let bench = trained(TINY);
    for (choice, steps, on_the_way, at_the_end) in [
        ("end", 6, "sampled", "full"),
        ("never", 120, "sampled", "sampled"),
        ("always", 6, "full", "full"),
        ("auto", 6, "sampled", "sampled"),
        // 88 held-out tokens are less than 5 % of 1920 trained on.
        ("auto", 120, "sampled", "full"),
    ] {
        let (key, max_steps) = (format!("train.full_eval={choice}"), format!("train.max_steps={steps}"));
        let out = format!("{choice}_{steps}");
        run(&bench, &["--set", &key, "--set", &max_steps, "--set", "train.decay_steps=200", "--out", &out]);
        let found = status(&bench, &out);
        assert_eq!(found["final_evaluation"], at_the_end, "{out}");
        assert_eq!(found["final_val_tokens"], if at_the_end == "full" { 87 } else { 32 }, "{out}");
        let args = [out.as_str(), "--full"];
        let again = evaluate(&bench, if at_the_end == "full" { &args } else { &args[..1] });
        assert_eq!(again["loss"], found["final_val_loss"], "{out}");
        let sampled = bench.metrics(&out)["val/loss"] == bench.metrics("end_6")["val/loss"];
        assert!(steps > 6 || sampled == (on_the_way == "sampled"), "{out}");
    }
    let weights = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
    assert_eq!(weights("end_6"), weights("always_6"));
    assert_eq!(weights("auto_120"), weights("never_120"), "evaluation moves no training");
}

#[test]
fn options_choose_split_and_sample() {
    let bench = trained(TINY);
    let loss = |more: &[&str]| evaluate(&bench, &[&["runs/tiny"], more].concat());
    let (default, two) = (loss(&[]), loss(&["--batches", "2"]));
    assert_eq!(default, two, "the run's `eval_batches` is the default");
    assert_ne!(loss(&["--batches", "3"])["loss"], two["loss"]);
    let train = loss(&["--split", "train", "--full"]);
    assert_eq!((&train["split"], &train["tokens"]), (&"training".into(), &791.into()));
    assert_ne!(loss(&["--full-precision"])["loss"], default["loss"]);
    let line = bench.host(&["evaluate", "runs/tiny", "--full"]).stdout;
    assert!(
        line.starts_with("validation loss 3.") && line.contains("(full evaluation, 87 tokens, "),
        "{line}"
    );
}

#[test]
fn each_model_that_cannot_be_evaluated_is_refused() {
    let bench = trained(TINY);
    let mut page = String::new();
    let mut refused = |args: &[&str]| {
        let outcome = bench.host(&[&["evaluate"], args].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        page += &format!("=== evaluate {}\n{}\n", args.join(" "), bench.redacted(&outcome.stderr));
    };
    refused(&["gone"]);
    refused(&["runs/tiny", "--full", "--batches", "3"]);
    refused(&["runs/tiny", "--batches", "0"]);
    bench.write("corpus.txt", &"the quick brown fox jumps over the lazy cat\n".repeat(20));
    refused(&["runs/tiny"]);
    fs::remove_file(bench.path("corpus.txt")).unwrap();
    refused(&["runs/tiny"]);
    assert_snapshot!("evaluate_faults", page);
}
