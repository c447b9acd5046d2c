//! The first commands of a user: `demo`, `init`, `train`, and `plugins new` from a clone.

use std::{fs, process::Command};

use altgrad_end_to_end::{Bench, TINY, root, stage};

#[test]
#[ignore = "--all: trains nine runs"]
fn the_demonstration_ends_with_a_comparison() {
    let bench = Bench::new();
    let said = bench.host(&["demo", "--steps", "10"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("http://127.0.0.1:"), "{}", said.stderr);
    for part in [
        "fp32",
        "E4M3",
        "E2M1",
        "minus baseline",
        " watch altgrad-demo/runs",
        " sweep altgrad-demo/demo.toml",
    ] {
        assert!(said.stdout.contains(part), "{part}:\n{}", said.stdout);
    }
    // Its suggestions work, and it overwrites nothing.
    let again = bench.host(&["sweep", "altgrad-demo/demo.toml"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let refused = bench.host(&["demo"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("the folder exists already"), "{}", refused.stderr);
}

#[test]
fn a_demonstration_that_cannot_start_leaves_nothing() {
    let bench = Bench::new();
    fs::copy(stage().join("altgrad-host"), bench.path("altgrad-host")).unwrap();
    let mut alone = Command::new(bench.path("altgrad-host"));
    let output =
        alone.arg("demo").current_dir(bench.path("")).env("XDG_STATE_HOME", bench.path("state")).output();
    let output = output.unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!bench.path("altgrad-demo").exists());
}

/// The names in the first column of a table that a command prints.
fn listed(bench: &Bench, args: &[&str]) -> Vec<String> {
    let said = bench.host(args);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let cells = said.stdout.lines().filter_map(|line| line.split(['│', '┆']).nth(1));
    let names = cells.map(|cell| cell.trim().to_string()).filter(|name| !name.is_empty());
    names.skip(1).collect()
}

/// `init` itself checks what it writes as `check` does, without the trial steps.
#[test]
fn init_writes_a_run_file_for_every_choice() {
    let bench = Bench::new();
    let written = |args: &[&str], file: &str| {
        let said = bench.host(&[&["init"], args].concat());
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        assert!(said.stdout.contains(&format!("run {file}")), "{args:?}: {}", said.stdout);
        bench.read(file)
    };
    let formats = listed(&bench, &["formats", "list"]);
    assert!(formats.len() >= 17, "{formats:?}");
    for format in formats {
        let text = written(&["--format", &format], &format!("{}.toml", format.to_lowercase()));
        assert!(text.contains(&format!("\nweight = {format:?}")), "{text}");
    }
    for path in fs::read_dir(root().join("configs/recipes")).unwrap().map(|entry| entry.unwrap().path()) {
        let recipe = path.file_stem().unwrap().to_str().unwrap();
        written(&["--recipe", recipe], &format!("{recipe}.toml"));
    }
    for optimizer in ["sgd", "lion", "madam", "muon", "soap", "stiffness-adamw", "fp8-manifold"] {
        written(&["--optimizer", optimizer], &format!("fp32-{optimizer}.toml"));
    }
    written(&["--format", "E3M4:ieee", "--text", "corpus.txt"], "e3m4-ieee.toml");
    bench.write("below/other.txt", "");
    written(&["--text", "corpus.txt", "--out", "below/own.toml"], "below/own.toml");
    for file in ["nvfp4.toml", "below/own.toml"] {
        let said = bench.host(&["check", file, "--set", "data.batch_size=1"]);
        assert_eq!(said.code, 0, "{file}: {}", said.stderr);
    }
    let before = bench.read("e4m3.toml");
    let refused = bench.host(&["init", "--format", "E4M3"]);
    assert_eq!((refused.code, before), (2, bench.read("e4m3.toml")));
    let refused = bench.host(&["init", "--format", "E4M4", "--out", "new.toml"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("--> --format E4M4"), "{}", refused.stderr);
    assert!(!bench.path("new.toml").exists());
}

#[test]
fn names_of_other_tools_are_accepted() {
    let bench = Bench::new();
    let text = TINY.replace("max_steps", "max_iters").replace("\"E5M2\"", "\"bf16\"");
    bench.write("tiny.toml", &text);
    let said = bench.host(&["train", "tiny.toml", "--quiet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stderr.matches("`train.max_iters` is `train.max_steps`").count(), 1, "{}", said.stderr);
    let resolved = bench.read("runs/tiny/config.toml");
    assert!(resolved.contains("max_steps = 6") && resolved.contains("weight = \"E8M7\""), "{resolved}");
    assert_eq!(bench.host(&["formats", "table", "bf16"]).code, 0);
}

#[test]
fn a_clone_knows_its_plugin_api() {
    let bench = Bench::new();
    let said = bench.host(&["plugins", "new", "--kind", "format", "lns8"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let manifest = bench.read("lns8/Cargo.toml");
    assert!(manifest.contains("plugin-api\""), "{manifest}");
}

#[test]
fn the_readmes_first_question_gets_an_answer() {
    let bench = Bench::new();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = readme.split("```sh run\n").nth(1).unwrap().split("```").next().unwrap();
    let mut last = String::new();
    for line in block.lines() {
        let command = line.split('#').next().unwrap();
        let mut words: Vec<&str> = command.split_whitespace().skip(1).collect();
        if words[0] == "run" {
            words.extend(["--max-steps", "4", "--quiet", "--set", "train.eval_batches=1"]);
            words.extend(["--set", "train.full_eval='never'"]);
        }
        let said = bench.host(&words);
        assert_eq!(said.code, 0, "{line}: {}", said.stderr);
        last = said.stdout;
    }
    assert!(last.contains("E5M2") && last.contains("fp32"), "{last}");
}
