//! A run end to end: it learns, it is reproducible, and it ends cleanly.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use altgrad_end_to_end::{Bench, TINY, built, fixture, is_thorough, plugin, started_by};
use insta::assert_snapshot;

/// A tiny run with the CSV sink.
fn with_csv(extra: &str) -> String {
    format!("{TINY}\n[[sink]]\nname = \"csv\"\n{extra}")
}

#[test]
fn a_run_leaves_its_files_and_a_row_a_step() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("final validation loss"), "{}", outcome.stdout);
    let mut reader = csv::Reader::from_path(bench.path("runs/tiny/metrics.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    assert_eq!(header.get(0), Some("step"));
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let steps: Vec<&str> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(steps, ["0", "1", "2", "3", "4", "5", "6"]);
    let filled = |name| rows.iter().filter(|row| !row[column(name)].is_empty()).count();
    assert_eq!(filled("train/loss"), 6);
    assert_eq!(filled("val/loss"), 4, "evaluated at steps 0, 2 and 4, and at the end");
    assert_eq!(filled("quant/sqnr_db"), 6);
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!(status["status"], "completed");
    assert_eq!(status["steps"], 6);
    let last: f64 = rows[6][column("val/loss")].parse().unwrap();
    assert_eq!(Some(last), status["final_val_loss"].as_f64(), "the last row is the final evaluation");
    assert_eq!(status["sinks"][0]["rows"], 7);
    let plugins = status["environment"]["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), 3, "the libraries this run uses");
    assert!(plugins.iter().all(|plugin| plugin["sha256"].as_str().unwrap().len() == 64));
    for file in ["config.toml", "timings.csv", "weights.safetensors"] {
        assert!(bench.path("runs/tiny").join(file).is_file(), "{file}");
    }
    // A finished run that is resumed repeats its end, and counts the same rows.
    let metrics = bench.read("runs/tiny/metrics.csv");
    assert_eq!(bench.host(&["run", "tiny.toml", "--resume"]).code, 0);
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!((&status["sinks"][0]["rows"], &status["final_val_loss"]), (&7.into(), &last.into()));
    assert_eq!(bench.read("runs/tiny/metrics.csv"), metrics);
}

/// The final evaluation may be of the whole split, and those before it of samples: the last row has the former, and the
/// curve of the report the latter.
#[test]
fn the_last_row_has_the_loss_of_the_whole_split_where_it_is_the_final_one() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv("").replace("[train]", "[train]\nfull_eval = \"end\""));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!(status["final_evaluation"], "full");
    let metrics = bench.read("runs/tiny/metrics.csv");
    let column = metrics.lines().next().unwrap().split(',').position(|name| name == "val/loss").unwrap();
    let last = metrics.lines().last().unwrap().split(',').nth(column).unwrap();
    assert_eq!(last.parse().ok(), status["final_val_loss"].as_f64());
    assert_ne!(status["final_val_loss"], status["best_val_loss"], "of another kind");
}

#[test]
fn check_says_what_would_run_and_writes_nothing() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    let before = bench.contents();
    let page = bench.page(&bench.host(&["check", "tiny.toml"]));
    // Measured lines change.
    let is_stable = |line: &&str| !line.starts_with("memory: ") && !line.starts_with("time: ");
    assert_snapshot!("check", page.lines().filter(is_stable).collect::<Vec<_>>().join("\n"));
    assert_eq!(bench.contents(), before);
}

#[test]
fn the_same_seed_gives_the_same_metrics_bit_for_bit() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    for out in ["a", "b"] {
        assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", out]).code, 0);
    }
    assert_eq!(bench.read("a/metrics.csv"), bench.read("b/metrics.csv"));
    assert_eq!(
        fs::read(bench.path("a/weights.safetensors")).unwrap(),
        fs::read(bench.path("b/weights.safetensors")).unwrap()
    );
    let other = bench.host(&["run", "tiny.toml", "--quiet", "--out", "c", "--set", "run.seed=2"]);
    assert_eq!(other.code, 0);
    assert_ne!(bench.read("a/metrics.csv"), bench.read("c/metrics.csv"));
}

#[test]
fn the_resolved_run_file_runs_again_to_the_same_metrics() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
    assert_eq!(bench.host(&["run", "runs/tiny/config.toml", "--quiet", "--out", "again"]).code, 0);
    assert_eq!(bench.read("runs/tiny/metrics.csv"), bench.read("again/metrics.csv"));
}

#[test]
fn a_format_changes_neither_initial_weights_nor_batches() {
    let bench = Bench::new();
    for library in [plugin("adamw.so"), plugin("csv.so"), built("libaltgrad_fixture_panicker.so")] {
        bench.add_plugin(&library);
    }
    let plain = with_csv("[plugins]\ndir = \"plugins\"\ncheck = \"none\"\n")
        .replace("[quant]\nweight = \"E5M2\"", "");
    bench.write("plain.toml", &plain);
    // BAD8 passes values through: with it, every loss must be bit-identical to the unquantized
    // run's.
    bench.write("same.toml", &format!("{plain}[quant]\nweight = \"BAD8\"\n"));
    let losses = |config: &str, out: &str| -> Vec<String> {
        let outcome = bench.host(&["run", config, "--quiet", "--out", out]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let rows = bench.read(&format!("{out}/metrics.csv"));
        // step, train/loss, train/perplexity, val/loss: without a format the row ends earlier.
        rows.lines().map(|row| row.split(',').take(4).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(losses("plain.toml", "plain"), losses("same.toml", "same"));
}

#[test]
fn exported_weights_are_where_a_run_starts() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    assert_eq!(bench.host(&["weights", "export", "tiny.toml", "--to", "w.safetensors"]).code, 0);
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", "a"]).code, 0);
    let from_file = ["run", "tiny.toml", "--quiet", "--out", "b", "--set", "model.init=w.safetensors"];
    assert_eq!(bench.host(&from_file).code, 0);
    assert_eq!(bench.read("a/metrics.csv"), bench.read("b/metrics.csv"));
}

#[test]
fn every_option_of_the_model_and_the_schedule_trains_and_matters() {
    let base = Bench::new();
    base.write("tiny.toml", &with_csv(""));
    assert_eq!(base.host(&["run", "tiny.toml", "--quiet"]).code, 0);
    let unchanged = base.read("runs/tiny/metrics.csv");
    let rows = [
        "model.bias=true",
        "model.tie_weights=false",
        "model.norm=rmsnorm",
        "model.positions=rotary",
        "model.mlp=swiglu",
        "model.qk_norm=true",
        "model.n_kv_head=1",
        "model.dropout=0.1",
        "train.grad_accum=3",
        "train.schedule=trapezoidal",
        "train.schedule=constant",
        "train.grad_clip=0.1",
        "train.z_loss=0.1",
        "quant.rounding=stochastic",
        "quant.weight=E4M3:fin",
        "quant.exclude=[\"*.attn.*\"]",
        "data.tokenizer=byte",
    ];
    for set in rows {
        let bench = Bench::new();
        bench.write("tiny.toml", &with_csv(""));
        let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--set", set]);
        assert_eq!(outcome.code, 0, "{set}: {}", outcome.stderr);
        assert_ne!(bench.read("runs/tiny/metrics.csv"), unchanged, "{set} changes nothing");
    }
}

#[test]
fn a_model_with_other_parts_learns_resumes_and_samples() {
    let bench = Bench::new();
    let model = "[model]\nnorm = \"rmsnorm\"\npositions = \"rotary\"\nmlp = \"smooth_swiglu\"\nqk_norm = true\nn_kv_head = 1\nbias = true";
    bench.write(
        "tiny.toml",
        &with_csv("").replace("[model]", model).replace("max_steps = 6", "max_steps = 60\nz_loss = 1e-4"),
    );
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", "whole"]).code, 0);
    let metrics = bench.read("whole/metrics.csv");
    let losses: Vec<f64> =
        metrics.lines().skip(1).filter_map(|row| row.split(',').nth(1).unwrap().parse().ok()).collect();
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[50..]) < mean(&losses[..10]) - 0.1, "{losses:?}");
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", "part", "--max-steps", "30"]).code, 0);
    let resume = ["run", "tiny.toml", "--quiet", "--out", "part", "--resume"];
    let outcome = bench.host(&resume);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(bench.read("part/metrics.csv"), metrics);
    assert_eq!(bench.host(&["sample", "whole", "--prompt", "a"]).code, 0);
    let export = bench.host(&["weights", "export", "whole", "--to", "w.safetensors", "--layout", "gpt2"]);
    assert_eq!(export.code, 2);
    let keys =
        ["norm", "mlp", "positions", "qk_norm", "n_kv_head"].map(|key| format!("`model.{key}`")).join(", ");
    assert!(export.stderr.contains(&format!("differs from GPT-2 in {keys}\n")), "{}", export.stderr);
    assert!(!bench.path("w.safetensors").exists());
}

#[test]
fn a_library_in_the_plugin_folder_adds_its_format() {
    let bench = Bench::new();
    for name in ["e5m2.so", "adamw.so"] {
        bench.add_plugin(&plugin(name));
    }
    bench.write("tiny.toml", &format!("{TINY}\n[plugins]\ndir = \"plugins\"\n").replace("E5M2", "INT8-RUST"));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 2);
    bench.add_plugin(&altgrad_end_to_end::built("libaltgrad_example_int8.so"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn max_steps_stops_early_and_keeps_the_schedule() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", "whole"]).code, 0);
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet", "--out", "part", "--max-steps", "3"]).code, 0);
    let (whole, part) = (bench.read("whole/metrics.csv"), bench.read("part/metrics.csv"));
    assert_eq!(part.lines().count(), 5, "three steps and the final evaluation");
    assert!(part.lines().take(4).eq(whole.lines().take(4)));
}

#[test]
fn a_run_trains_on_token_bins() {
    let bench = Bench::new();
    fs::create_dir(bench.path("bins")).unwrap();
    for (name, tokens) in [("train.bin", 300u16), ("val.bin", 50)] {
        let bytes: Vec<u8> = (0..tokens).flat_map(|at| (at * 7 % 40).to_le_bytes()).collect();
        fs::write(bench.path("bins").join(name), bytes).unwrap();
    }
    bench.write("bins/meta.json", "{\"vocab_size\": 40, \"source\": \"made here\"}");
    bench.write("tiny.toml", &TINY.replace("text:corpus.txt", "bins:bins").replace("\"char\"", "\"gpt2\""));
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("300 training and 50 validation tokens"), "{}", outcome.stdout);
}

#[test]
fn a_loss_that_stays_nan_ends_the_run_and_is_not_called_a_success() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    let sets = ["train.lr=1e30", "train.grad_clip=0", "train.max_steps=100", "quant.rounding=toward-zero"];
    let mut args = vec!["run", "tiny.toml", "--quiet"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let outcome = bench.host(&args);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("NaN or infinite for 10 steps"), "{}", outcome.stderr);
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!(status["status"], "not_finite");
    assert!(bench.read("runs/tiny/metrics.csv").contains("NaN"));
}

#[test]
fn a_run_whose_output_nobody_reads_completes() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let mut child =
        bench.command(&["run", "tiny.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(bench.path("runs/tiny/weights.safetensors").is_file());
}

#[test]
#[cfg(unix)]
fn ctrl_c_and_sigterm_end_the_run_cleanly() {
    for signal in ["-INT", "-TERM"] {
        interrupted(signal);
    }
}

fn interrupted(signal: &str) {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    let args =
        ["run", "tiny.toml", "--quiet", "--set", "train.max_steps=1000000", "--set", "train.eval_interval=0"];
    // A shell's background command ignores SIGINT, and so do the commands that it starts.
    let mut child = started_by(&["env", "--default-signal=INT"], &bench.command(&args)).spawn().unwrap();
    let metrics = bench.path("runs/tiny/metrics.csv");
    for _ in 0..600 {
        if fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > 5) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!(status["status"], "interrupted");
    assert!(bench.read("runs/tiny/events.jsonl").contains("\"kind\":\"interrupted\""));
    let rows = bench.read("runs/tiny/metrics.csv").lines().count() as u64 - 1;
    assert_eq!(status["steps"].as_u64(), Some(rows), "every finished step has its row");
    assert!(bench.path("runs/tiny/weights.safetensors").is_file());
    let state = bench.read("runs/tiny/checkpoints/last/state.toml");
    assert!(state.contains(&format!("\nstep = {rows}\n")), "{rows} rows: {state}");
    let more = (rows + 2).to_string();
    let resumed = bench.host(&[args.as_slice(), &["--resume", "--max-steps", &more]].concat());
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(bench.read("runs/tiny/metrics.csv").lines().count() as u64, rows + 4);
}

/// While numbers are not finite, no checkpoint is written.
#[test]
#[cfg(unix)]
fn an_interrupted_run_without_a_checkpoint_of_its_last_step_says_so() {
    let bench = Bench::new();
    bench.write("tiny.toml", &with_csv(""));
    let sets = [
        "train.lr=1e30",
        "train.grad_clip=0",
        "train.max_steps=1000000",
        "train.eval_interval=0",
        "quant.rounding=toward-zero",
        "alerts.nan_patience=1000000",
    ];
    let mut args = vec!["run", "tiny.toml", "--quiet"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let mut command = bench.command(&args);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let metrics = bench.path("runs/tiny/metrics.csv");
    for _ in 0..600 {
        if fs::read_to_string(&metrics).is_ok_and(|text| text.contains("NaN")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let killed =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let outcome = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(1), "{said}");
    assert!(said.contains("steps without a checkpoint: there is none"), "{said}");
    let status: serde_json::Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    assert_eq!((&status["status"], &status["not_finite"]), (&"interrupted".into(), &true.into()));
}

/// Each check takes steps of the run, here of one sequence. All files are checked with `--all`, otherwise those
/// with small models.
#[test]
fn every_run_file_of_the_project_passes_its_check() {
    let folders = ["../../../configs", "../../../configs/small", "../../../configs/optimizers"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(fixture(folder)).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert!(files.len() >= 25, "only {} run files", files.len());
    files.sort();
    files.retain(|path| is_thorough() || path.parent().is_some_and(|folder| folder.ends_with("small")));
    let bench = Bench::new();
    for path in &files {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).unwrap();
        let is_matrix = text.contains("\n[axes]\n") || text.contains("\n[[axes.");
        let args = if is_matrix {
            vec!["sweep", &shown, "--check"]
        } else {
            vec!["check", &shown, "--set", "data.batch_size=1"]
        };
        let outcome = bench.host(&args);
        assert_eq!(outcome.code, 0, "{shown}: {}", outcome.stderr);
    }
}
