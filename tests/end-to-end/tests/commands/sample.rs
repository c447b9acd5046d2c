//! Text from trained models, and import and export of their weights.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY};
use insta::assert_snapshot;

/// A bench with a trained run in `runs/tiny`, good enough to spell.
fn trained(extra: &str) -> Bench {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{}{extra}", TINY.replace("max_steps = 6", "max_steps = 60")));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    bench
}

#[track_caller]
fn text(outcome: &Outcome) -> String {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout.clone()
}

#[track_caller]
fn refused(outcome: &Outcome, message: &str) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
    let first = outcome.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("error: ") && first.contains(message), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
}

#[test]
fn text_depends_on_the_seed_alone_and_greedy_is_top_1() {
    let bench = trained("");
    let sample = |more: &[&str]| {
        text(&bench.host(&[&["sample", "runs/tiny", "--prompt", "the q", "--tokens", "40"], more].concat()))
    };
    let plain = sample(&[]);
    // Prompt, 40 characters, the line's end.
    assert!(plain.starts_with("the q") && plain.ends_with('\n'));
    assert_eq!(plain.chars().count(), 5 + 40 + 1);
    assert_eq!(plain, sample(&["--seed", "1337"]), "the run's seed is the default");
    assert_ne!(plain, sample(&["--seed", "1"]));
    let greedy = sample(&["--temperature", "0"]);
    assert_eq!(greedy, sample(&["--temperature", "0", "--seed", "5"]));
    assert_eq!(greedy, sample(&["--top-k", "1", "--seed", "6"]));
    assert_eq!(plain, sample(&["--top-k", "100000"]), "more than the vocabulary is all of it");
    // Of a prompt longer than the block of 8 only the end counts.
    let long = "over the lazy dog\nthe quick brown";
    let end = &long[long.len() - 8..];
    let after = |prompt: &str| {
        let args = ["sample", "runs/tiny", "--prompt", prompt, "--temperature", "0", "--tokens", "9"];
        text(&bench.host(&args))[prompt.len()..].to_string()
    };
    assert_eq!(after(long), after(end));
}

#[test]
fn the_vocabulary_is_that_of_the_run_when_the_corpus_is_gone_or_changed() {
    let bench = trained("");
    let sample = || text(&bench.host(&["sample", "runs/tiny", "--prompt", "fox", "--tokens", "20"]));
    let before = sample();
    fs::remove_file(bench.path("corpus.txt")).unwrap();
    assert_eq!(sample(), before);
    // The next run can have it too, on another text.
    let resolved = bench.read("runs/tiny/config.toml");
    bench.write("corpus.txt", &"a bee saw a fox\n".repeat(40));
    bench.write("again.toml", &resolved);
    let again = bench.host(&[
        "run",
        "again.toml",
        "--quiet",
        "--out",
        "again",
        "--set",
        "model.init=runs/tiny/weights.safetensors",
    ]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    bench.write("corpus.txt", "It has capitals, that one.\n".repeat(40).as_str());
    refused(
        &bench.host(&["run", "again.toml", "--quiet", "--out", "third"]),
        "the character 'I' has no 16-bit id",
    );
}

#[test]
fn formats_round_unless_full_precision_is_asked_for() {
    let bench = trained("activation = \"E5M2\"\n");
    let sample = |more: &[&str]| {
        bench.host(&[&["sample", "runs/tiny", "--prompt", "the", "--tokens", "300"], more].concat())
    };
    assert_ne!(text(&sample(&[])), text(&sample(&["--full-precision"])));
    fs::create_dir(bench.path("none")).unwrap();
    let without = sample(&["--plugins", "none"]);
    assert_eq!(without.code, 2);
    assert!(without.stderr.contains("unknown format `E5M2`"), "{}", without.stderr);
    assert_eq!(
        text(&sample(&["--plugins", "none", "--full-precision"])),
        text(&sample(&["--full-precision"]))
    );
}

#[test]
fn a_model_is_found_by_run_checkpoint_pointer_or_file() {
    let bench = trained("");
    let sample =
        |path: &str| bench.host(&["sample", path, "--prompt", "the", "--tokens", "20", "--temperature", "0"]);
    let expected = text(&sample("runs/tiny"));
    assert_eq!(text(&sample("runs/tiny/weights.safetensors")), expected);
    // A run that has only checkpoints, its pointer a file or a link.
    let step = bench.path("cut/checkpoints/step-000060");
    fs::create_dir_all(&step).unwrap();
    fs::copy(bench.path("runs/tiny/weights.safetensors"), step.join("model.safetensors")).unwrap();
    fs::copy(bench.path("runs/tiny/config.toml"), step.join("config.toml")).unwrap();
    assert_eq!(text(&sample("cut/checkpoints/step-000060")), expected);
    bench.write("cut/checkpoints/last", "step-000060\n");
    assert_eq!(text(&sample("cut/checkpoints/last")), expected);
    assert_eq!(text(&sample("cut")), expected);
    fs::remove_file(bench.path("cut/checkpoints/last")).unwrap();
    std::os::unix::fs::symlink("step-000060", bench.path("cut/checkpoints/best")).unwrap();
    assert_eq!(text(&sample("cut/checkpoints/best")), expected);
    assert_eq!(text(&sample("cut")), expected);
}

#[test]
fn each_model_and_prompt_that_cannot_be_sampled_is_refused() {
    let bench = trained("");
    let mut page = String::new();
    let mut refused = |path: &str, prompt: &str| {
        let outcome = bench.host(&["sample", path, "--prompt", prompt]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        page += &format!("=== sample {path} --prompt {prompt:?}\n{}\n", bench.redacted(&outcome.stderr));
    };
    refused("runs/tiny", "");
    refused("runs/tiny", "Ünder");
    refused("gone", "a");
    refused("plugins", "a");
    fs::create_dir(bench.path("empty")).unwrap();
    refused("empty", "a");
    refused("corpus.txt", "a");
    refused("runs/tiny/config.toml", "a");
    let config = bench.read("runs/tiny/config.toml").replace("n_layer = 1", "n_layer = 2");
    bench.write("runs/tiny/config.toml", &config);
    refused("runs/tiny", "a");
    assert_snapshot!("sample_faults", page);
    for flags in [["--temperature", "-1"], ["--temperature", "nan"], ["--top-k", "0"], ["--tokens", "0"]] {
        let args = [&["sample", "runs/tiny", "--prompt", "a"], flags.as_slice()].concat();
        assert_eq!(bench.host(&args).code, 2, "{flags:?}");
    }
}

#[test]
fn weights_go_to_gpt2s_layout_and_come_back_to_the_bit() {
    let bench = trained("");
    let export = |from: &str, to: &str, layout: &str| {
        text(&bench.host(&["weights", "export", from, "--to", to, "--layout", layout]))
    };
    let said = export("runs/tiny", "gpt2.safetensors", "gpt2");
    assert!(said.contains("\"activation_function\":\"gelu\""), "{said}");
    bench.write("gpt2.toml", &TINY.replace("n_layer = 1", "n_layer = 1\ninit = \"gpt2.safetensors\""));
    export("gpt2.toml", "back.safetensors", "nanogpt");
    let bytes = |name: &str| fs::read(bench.path(name)).unwrap();
    // Behind the header, in which weights of a run also have its state.
    let values = |name: &str| {
        let bytes = bytes(name);
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert_eq!(values("back.safetensors"), values("runs/tiny/weights.safetensors"));
    assert_ne!(bytes("gpt2.safetensors"), bytes("back.safetensors"));
    let misused = bench.host(&["weights", "export", "runs/tiny", "--to", "x", "--set", "run.seed=1"]);
    refused(&misused, "a trained model is exported as it is");
    let misused = bench.host(&["weights", "export", "runs/tiny", "--to", "x", "--out", "y"]);
    refused(&misused, "an export has no run folder");
}
