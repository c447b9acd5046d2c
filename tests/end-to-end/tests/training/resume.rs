//! A resumed run is bit-identical to an uninterrupted one; another run's checkpoint is refused.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY, assert_same_run, built, plugin, size};

/// Steps of a whole run; half of them before the checkpoint. `ALTGRAD_RESUME_STEPS=200` for the long version.
fn steps() -> u64 {
    size("ALTGRAD_RESUME_STEPS", 20).into()
}

/// A run that measures all it can, and whose alerts do not depend on the clock.
fn measured() -> String {
    let steps = steps();
    TINY.replace("max_steps = 6", &format!("max_steps = {steps}"))
        + "\n[metrics]\nhistograms_every = 3\nrank_every = 4\ndead_neuron_window = 5\n\
           [shadow]\nevery = 3\n[alerts]\npatience = 2\ncooldown_s = 0\nnan_cooldown_s = 0\n\
           [[sink]]\nname = \"csv\"\n"
}

fn host(bench: &Bench, args: &[&str]) -> Outcome {
    bench.host(&[&["run", "run.toml", "--quiet"], args].concat())
}

fn succeeds(bench: &Bench, args: &[&str]) {
    let outcome = host(bench, args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
}

/// A run in one piece, and the same with a stop in the middle.
fn halves(set: &[&str]) -> Bench {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    succeeds(&bench, &[&["--out", "whole"], set.as_slice()].concat());
    let half = (steps() / 2).to_string();
    succeeds(&bench, &[&["--out", "parts", "--max-steps", &half], set.as_slice()].concat());
    succeeds(&bench, &[&["--out", "parts", "--resume"], set.as_slice()].concat());
    assert_same_run(&bench, "whole", "parts");
    // Once more, with nothing to do but the last evaluation.
    succeeds(&bench, &[&["--out", "parts", "--resume"], set.as_slice()].concat());
    assert_same_run(&bench, "whole", "parts");
    bench
}

#[test]
fn a_resume_that_would_replace_results_is_refused() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "run"]);
    let metrics = bench.read("run/metrics.csv");
    let refused = |args: &[&str], message: &str| {
        let outcome = host(&bench, &[&["--out", "run", "--resume"], args].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert_eq!(bench.read("run/metrics.csv"), metrics);
    };
    let done = steps();
    let shorter = format!("the checkpoint is after {done} steps, and `train.max_steps` is 6");
    refused(&["--set", "train.max_steps=6"], &shorter);

    // A fork that fails before its first checkpoint names the one that it began at.
    let last = bench.path("run/checkpoints/last");
    let longer = format!("train.max_steps={}", done + 9);
    let set = [
        &longer,
        "train.lr=1e30",
        "train.min_lr=1e30",
        "alerts.nan_patience=2",
        "checkpoint.keep_best=false",
    ];
    let set: Vec<&str> = set.into_iter().flat_map(|set| ["--set", set]).collect();
    let fork = ["--out", "fork", "--resume-anyway", "--resume", last.to_str().unwrap()];
    let failed = host(&bench, &[&fork[..], &set].concat());
    assert_eq!(failed.code, 5, "{}", failed.stderr);
    assert!(failed.stderr.contains("--out DIR` begins there again"), "{}", failed.stderr);

    fs::remove_dir_all(bench.path("run/checkpoints")).unwrap();
    refused(&[], &format!("the run has done {done} steps, but its folder has no checkpoint"));
}

#[test]
fn two_halves_are_the_whole_for_every_way_of_rounding() {
    let rows: [&[&str]; 12] = [
        &["quant.weight=none"],
        &["train.precision=bf16", "quant.weight=none", "train.grad_accum=2", "model.dropout=0.1"],
        &["quant.activation=E4M3", "quant.grad=E5M2", "quant.rounding=stochastic"],
        &["quant.activation=E4M3", "quant.grad=E5M2", "quant.scaling={amax=\"delayed\", window=3}"],
        &["quant.activation=E3M4", "quant.scaling={amax=\"static\"}"],
        &["quant.master_weights=none", "quant.weight_rounding=stochastic"],
        &["quant.master_weights=none", "quant.weight=E7M0", "quant.stored_scale={rule=\"fixed\"}"],
        &["quant.master_weights=none", "quant.stored_scale={rule=\"dynamic\"}"],
        &["quant.weight=E1M6", "quant.block=4", "quant.master_weights=none"],
        &["train.loss_scale=dynamic", "quant.grad=E4M3", "quant.block=none"],
        &["quant.weight=INT4", "quant.activation=E2M1", "quant.grad=E3M2"],
        &["quant.weight=E5M6", "quant.activation=E8M7", "quant.master_weights=none"],
    ];
    for set in rows {
        halves(set);
    }
}

#[test]
fn two_halves_are_the_whole_for_casts_and_their_random_signs() {
    let stochastic =
        "quant.cast.grad={format=\"E2M1\", rounding=\"stochastic\", transform={hadamard=8, signs=\"seed\"}}";
    let second = "quant.cast.weight_dgrad={source=\"hp\", transform={hadamard=8, signs=\"seed\"}}";
    let rows: [&[&str]; 3] = [
        &["quant.recipe=te_fp8_attention"],
        &[
            "quant.recipe=mxfp8",
            "quant.cast.weight_grad={format=\"E5M2\"}",
            "quant.cast.norm_gain={format=\"E4M3\"}",
        ],
        &[
            stochastic,
            second,
            "quant.cast.grad_wgrad={source=\"hp\", transform=\"none\"}",
            "quant.exclude=[\"lm_head.weight\"]",
        ],
    ];
    for set in rows {
        halves(set);
    }
}

#[test]
fn a_run_goes_on_among_skipped_steps() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    let scale = "quant.block=none";
    for (name, master) in [("fp32", "quant.master_weights=fp32"), ("none", "quant.master_weights=none")] {
        let set = ["train.loss_scale=dynamic", "quant.grad=E4M3", scale, master];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let (whole, parts) = (format!("{name}-whole"), format!("{name}-parts"));
        succeeds(&bench, &[&["--out", &whole, "--max-steps", "6"], set.as_slice()].concat());
        // The first steps are skipped.
        for steps in ["1", "2", "6"] {
            succeeds(
                &bench,
                &[&["--out", &parts, "--resume", "--max-steps", steps], set.as_slice()].concat(),
            );
        }
        assert_same_run(&bench, &whole, &parts);
        let events = bench.read(&format!("{whole}/events.jsonl"));
        assert!(events.lines().filter(|line| line.contains("step_skipped")).count() > 1, "{events}");
        assert!(!events.contains("nan_grad"), "{events}");
    }
}

/// Forks a run with other casts. A checkpoint resumes in a folder of its own.
#[test]
fn a_checkpoint_is_forked_with_other_casts() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "run", "--max-steps", "10"]);
    let from = "run/checkpoints/step-000010";
    for (name, set) in [
        ("bf16", ["quant.weight=none", "train.precision=bf16"]),
        ("delayed", ["quant.recipe=te_delayed", "quant.master_weights=fp32"]),
    ] {
        let set = ["--out", name, "--resume", from, "--set", set[0], "--set", set[1]];
        assert_ne!(host(&bench, &set).code, 0);
        succeeds(&bench, &[&set[..], &["--resume-anyway"]].concat());
    }
    let run: serde_json::Value = serde_json::from_str(&bench.read("bf16/run.json")).unwrap();
    assert!(run["resumes"].to_string().contains("train.precision"), "{}", run["resumes"]);
}

/// Codes of another format or of other blocks are not read as if they were those of the run.
#[test]
fn a_fork_keeps_the_formats_of_stored_codes() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    let states = |keys: &str| format!("optimizer.states={{exp_avg={{format=\"E4M3\", {keys}}}}}");
    let start = |states: &str, own: &[&str]| {
        let stored = ["quant.master_weights=none", "quant.stored_scale={rule=\"fixed\"}", states];
        stored.iter().chain(own).flat_map(|set| ["--set".to_string(), (*set).to_string()]).collect::<Vec<_>>()
    };
    let fork = |sets: &[String]| {
        let from = ["--out", "fork", "--resume-anyway", "--resume", "run/checkpoints/last"];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        host(&bench, &[&from[..], &sets].concat())
    };
    let block = "quant.block=[1, 4]";
    let sets = start(&states("block=16"), &[block]);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    succeeds(&bench, &[&["--out", "run", "--max-steps", "2"], sets.as_slice()].concat());
    for (states, own, said) in [
        (
            states("block=16").replace("E4M3", "E5M2"),
            [block, "quant.weight=E5M2"],
            "`optimizer.states.exp_avg.format` is \"E5M2\", was \"E4M3\"",
        ),
        (
            states("block=16, expand=8"),
            [block, "quant.weight=E5M2"],
            "`optimizer.states.exp_avg.expand` is 8, was not set",
        ),
        (
            states("block=16"),
            [block, "quant.weight=E4M3"],
            "is stored as E4M3 with a scale per 1x4 elements, was E5M2 with a scale per 1x4 elements",
        ),
        (
            states("block=16"),
            ["quant.block=[4, 1]", "quant.weight=E5M2"],
            "is stored as E5M2 with a scale per 4x1 elements, was E5M2 with a scale per 1x4 elements",
        ),
    ] {
        let refused = fork(&start(&states, &own));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
    // The rounding of the same codes may change.
    let states = states("block=16, rounding=\"stochastic\"");
    let forked = fork(&start(&states, &[block, "quant.weight_rounding=stochastic"]));
    assert_eq!(forked.code, 0, "{}", forked.stderr);
}

#[test]
#[ignore = "--all: three runs for each optimizer"]
fn two_halves_are_the_whole_for_every_optimizer() {
    let blocks = "quant.block=4";
    let codes = "optimizer.states={exp_avg={format=\"E5M2\", block=16}, exp_avg_sq={format=\"E5M2\", rounding=\"stochastic\"}}";
    let packed = "optimizer.states={exp_avg={format=\"INT4\", block=5}, exp_avg_sq={format=\"E2M1\", block=3, rounding=\"stochastic\"}}";
    let maps = "optimizer.states={exp_avg={format=\"DYNAMIC8\", block=16, min_size=65}, exp_avg_sq={format=\"DYNAMIC8:unsigned\"}}";
    let expanded = "optimizer.states={exp_avg={format=\"E4M3\", block=16, expand=16}, exp_avg_sq={format=\"E4M3\", expand=8}}";
    let rows: [&[&str]; 25] = [
        &["optimizer.name=adamw", "optimizer.decay_1d=true"],
        &["optimizer.states={exp_avg=\"bf16\", exp_avg_sq=\"bf16\"}"],
        &[codes],
        &[packed],
        &[maps],
        &[expanded],
        &[
            "quant.master_weights=none",
            "optimizer.error_feedback=true",
            "optimizer.states={rounding_residual=\"bf16\"}",
        ],
        &["optimizer.name=stiffness-adamw", blocks],
        &["optimizer.name=fp8-manifold", "quant.master_weights=none", blocks],
        &["optimizer.name=stiffness-adamw"],
        &["optimizer.name=stiffness-adamw", "optimizer.placement=power"],
        &["optimizer.name=fp8-manifold"],
        &["optimizer.name=fp8-manifold", "quant.master_weights=none"],
        &["optimizer.name=stiffness-adamw", "quant.master_weights=none", "train.schedule=trapezoidal"],
        &["optimizer.name=sgd", "optimizer.nesterov=true", "optimizer.states={momentum=\"bf16\"}"],
        &["optimizer.name=sgd", "quant.master_weights=none", "optimizer.error_feedback=true"],
        &["optimizer.name=lion", "optimizer.states={exp_avg={format=\"E4M3\", block=16}}"],
        &["optimizer.name=lion", "quant.master_weights=none", "optimizer.error_feedback=true"],
        &["optimizer.name=madam"],
        &["optimizer.name=madam", "quant.master_weights=none", "optimizer.error_feedback=true"],
        &[
            "optimizer.name=madam",
            "optimizer.weight_bound_unit=one",
            "optimizer.states={exp_avg_sq=\"bf16\"}",
        ],
        &["optimizer.name=muon", "optimizer.states={momentum={format=\"E4M3\", block=16}}"],
        &["optimizer.name=muon", "quant.master_weights=none", "optimizer.error_feedback=true"],
        &["optimizer.name=soap", "optimizer.update_interval=3", "optimizer.states={exp_avg=\"bf16\"}"],
        &["optimizer.name=soap", "quant.master_weights=none", "optimizer.error_feedback=true"],
    ];
    for set in rows {
        halves(set);
    }
}

#[test]
fn a_finished_run_goes_on_with_more_steps_and_keeps_its_schedule() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    // Without `decay_steps` the cosine ends where the run did.
    succeeds(&bench, &["--out", "parts", "--set", "train.max_steps=8"]);
    succeeds(&bench, &["--out", "parts", "--set", "train.max_steps=12", "--resume"]);
    succeeds(&bench, &["--out", "whole", "--set", "train.max_steps=12", "--set", "train.decay_steps=8"]);
    assert_same_run(&bench, "whole", "parts");
}

#[test]
fn auto_starts_a_fresh_run_and_one_without_a_checkpoint_anew() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "whole"]);
    succeeds(&bench, &["--out", "fresh", "--resume"]);
    assert_same_run(&bench, "whole", "fresh");
    // As if it had been killed before its first checkpoint.
    fs::remove_dir_all(bench.path("fresh/checkpoints")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&bench.read("fresh/run.json")).unwrap();
    record["status"] = "running".into();
    record["checkpoint"] = serde_json::Value::Null;
    bench.write("fresh/run.json", &record.to_string());
    let refused = host(&bench, &["--out", "fresh", "--resume"]);
    assert_eq!(refused.code, 2, "its events tell of checkpoints: {}", refused.stderr);
    assert!(refused.stderr.contains("the run has written checkpoints, but its folder has none"));
    fs::remove_file(bench.path("fresh/events.jsonl")).unwrap();
    succeeds(&bench, &["--out", "fresh", "--resume", "auto"]);
    assert_same_run(&bench, "whole", "fresh");
    bench.write("other/file", "x");
    let outcome = host(&bench, &["--out", "other", "--resume"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the run folder is not empty"), "{}", outcome.stderr);
}

#[test]
fn a_resume_that_starts_from_the_beginning_says_so() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    let resumed = || bench.host(&["run", "run.toml", "--out", "run", "--resume"]);
    let beginning = "no checkpoint in run: the run starts from the beginning";
    let first = resumed();
    assert!(first.code == 0 && first.stderr.contains(beginning), "{}", first.stderr);
    let second = resumed();
    assert!(second.code == 0 && !second.stderr.contains(beginning), "{}", second.stderr);
}

#[test]
fn another_run_is_refused_by_key_and_goes_on_anyway_with_a_record() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "run", "--max-steps", "6"]);
    bench.write("other.txt", &"another text altogether, as long as the other one\n".repeat(20));
    let rows: [(&[&str], &[&str]); 8] = [
        (&["train.lr=0.02"], &["`train.lr` is 0.02, was 0.01"]),
        (&["run.seed=7", "quant.grad=E5M2"], &["`run.seed` is 7", "`quant.grad` is \"E5M2\", was not set"]),
        (&["model.n_layer=2"], &["`model.n_layer` is 2, was 1"]),
        (&["data.dataset=text:other.txt"], &["`data.dataset` is other.txt with the fingerprint "]),
        (&["optimizer.beta1=0.5"], &["`optimizer.beta1` is 0.5"]),
        (&["optimizer.name=fp8-manifold"], &["`optimizer.name` is \"fp8-manifold\""]),
        (&["train.decay_steps=10"], &["`train.decay_steps` is 10"]),
        (&["metrics.every=2"], &["`metrics.every` is 2, was 1"]),
    ];
    for (set, expected) in rows {
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let outcome = host(&bench, &[&["--out", "run", "--resume"], set.as_slice()].concat());
        assert_eq!(outcome.code, 2, "{set:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("the checkpoint is of another run"), "{}", outcome.stderr);
        for said in expected {
            assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
        }
        assert_eq!(bench.read("run/metrics.csv").lines().count(), 8, "nothing was touched");
    }
    // Settings that another run may change freely.
    let free = [
        "run.name=other",
        "alerts.patience=9",
        "checkpoint.every=2",
        "sink.0.path=m.csv",
        "train.max_steps=8",
    ];
    let set: Vec<&str> = free.iter().flat_map(|set| ["--set", set]).collect();
    succeeds(&bench, &[&["--out", "run", "--resume"], set.as_slice()].concat());

    succeeds(&bench, &["--out", "run", "--resume", "--resume-anyway", "--set", "train.lr=0.02"]);
    let status: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    let difference = &status["resumes"].as_array().unwrap().last().unwrap()["differences"][0];
    assert_eq!(
        (difference["key"].as_str(), difference["was"].as_str(), difference["is"].as_str()),
        (Some("train.lr"), Some("0.01"), Some("0.02"))
    );
    assert!(bench.read("run/events.jsonl").contains("`train.lr` is 0.02, was 0.01"));
    // A model of another shape cannot resume at all.
    let outcome = host(&bench, &["--out", "run", "--resume", "--resume-anyway", "--set", "model.n_embd=16"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("[27, 8]") || outcome.stderr.contains(" 8]"), "{}", outcome.stderr);
}

#[test]
fn another_build_of_a_plugin_is_another_run() {
    let bench = Bench::new();
    for library in [plugin("adamw.so"), plugin("csv.so"), built("libaltgrad_fixture_panicker.so")] {
        bench.add_plugin(&library);
    }
    let text = measured().replace("E5M2", "BAD8");
    bench.write("run.toml", &format!("{text}\n[plugins]\ndir = \"plugins\"\ncheck = \"none\"\n"));
    succeeds(&bench, &["--out", "run", "--max-steps", "3"]);
    let library = bench.path("plugins/libaltgrad_fixture_panicker.so");
    // Bytes after the end of a library belong to no section, but its sha256 changes.
    let mut bytes = fs::read(&library).unwrap();
    bytes.extend([0; 16]);
    fs::remove_file(&library).unwrap();
    fs::write(&library, bytes).unwrap();
    let outcome = host(&bench, &["--out", "run", "--resume"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`format plugin BAD8` is version 0.1.0, sha256 "), "{}", outcome.stderr);
    succeeds(&bench, &["--out", "run", "--resume", "--resume-anyway"]);
}

#[test]
fn a_checkpoint_every_step_is_one_of_every_step() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    let set =
        ["train.max_steps=25", "checkpoint.every=1", "checkpoint.keep_last=30", "checkpoint.keep_best=false"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    succeeds(&bench, &[&["--out", "run"], set.as_slice()].concat());
    let names = fs::read_dir(bench.path("run/checkpoints")).unwrap().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("step-"));
    names.sort();
    let expected: Vec<String> = (1..=25).map(|step| format!("step-{step:06}")).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "whole"]);
    succeeds(&bench, &["--out", "parts", "--set", "checkpoint.every=3", "--max-steps", "8"]);
    let newest = bench.path("parts/checkpoints/step-000008");
    let model = newest.join("model.safetensors");
    let whole = fs::read(&model).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bytes, what) in [
        (&whole[..whole.len() / 2], "has 2576 bytes, 5152 were written"),
        (&flipped[..], "is not what was written: its checksum differs"),
    ] {
        fs::write(&model, bytes).unwrap();
        let outcome = host(&bench, &["--out", "parts", "--resume", newest.to_str().unwrap()]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        let said = format!("step-000008/model.safetensors {what}");
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
    }
    let outcome = bench.host(&["run", "run.toml", "--out", "parts", "--resume"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("passed over step-000008/model.safetensors"), "{}", outcome.stderr);
    assert_same_run(&bench, "whole", "parts");
    assert!(bench.path("parts/checkpoints/set-aside-step-000008").is_dir());
}

#[test]
fn foreign_and_missing_checkpoints_are_named() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "run", "--max-steps", "2"]);
    let state = bench.path("run/checkpoints/step-000002/state.toml");
    let text = fs::read_to_string(&state).unwrap();
    let rows = [
        (text.replace("version = 1", "version = 2"), "state.toml has layout version 2, this host reads 1"),
        (text.replace("altgrad checkpoint", "other checkpoint"), "state.toml is of another program"),
        ("hello".to_string(), "state.toml cannot be understood"),
    ];
    for (text, expected) in rows {
        fs::write(&state, text).unwrap();
        let outcome = host(&bench, &["--out", "run", "--resume"]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("no checkpoint of the run can be used"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{expected}: {}", outcome.stderr);
    }
    let outcome = host(&bench, &["--out", "run", "--resume", "nowhere"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("nowhere is missing"), "{}", outcome.stderr);
    let outcome = host(&bench, &["--out", "run", "--resume", ""]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("a value is required for '--resume"), "{}", outcome.stderr);
}

#[test]
fn a_checkpoint_begins_a_run_of_its_own_in_another_folder() {
    let bench = Bench::new();
    bench.write("run.toml", &measured());
    succeeds(&bench, &["--out", "whole"]);
    succeeds(&bench, &["--out", "part", "--max-steps", "6"]);
    succeeds(&bench, &["--out", "branch", "--resume", "part/checkpoints/last"]);
    // A run folder is its last checkpoint.
    succeeds(&bench, &["--out", "again", "--resume", "part"]);
    assert_same_run(&bench, "branch", "again");
    let (whole, branch) = (bench.read("whole/metrics.csv"), bench.read("branch/metrics.csv"));
    let rows = |text: &str, skip: usize| text.lines().skip(skip).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(rows(&whole, 7), rows(&branch, 1), "rows from step 6 on");
    let bytes = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
    assert_eq!(bytes("whole"), bytes("branch"));
    let outcome = host(&bench, &["--out", "whole", "--resume", "part/checkpoints/last"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("the checkpoint is of another run folder"), "{}", outcome.stderr);
}
