//! The whole way on run folders made here: reading, grouping, comparing, the page; and folders that are none.
#![allow(clippy::unwrap_used)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sha2::Digest;
use tempfile::TempDir;

mod charts;
mod failures;
mod misleading;
mod results;
mod sweeps;
mod unfinished;

use super::{
    compare::{Choice, Comparison, LossVerdict},
    find::{FoundRuns, find},
    group::{Group, groups},
    page,
    run::Run,
};

/// A finished run: format, seed, final loss; the held-out loss falls to it over ten steps.
fn run(folder: &Path, name: &str, format: &str, seed: u64, loss: f64) -> PathBuf {
    run_with(folder, name, &format!("weight = \"{format}\"\n[train]\nmax_steps = 10\n"), seed, loss)
}

/// Likewise, with the run file from the table `[quant]` on.
fn run_with(folder: &Path, name: &str, quant: &str, seed: u64, loss: f64) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    let config =
        format!("[run]\nname = {name:?}\nseed = {seed}\n[optimizer]\nname = \"adamw\"\n[quant]\n{quant}");
    fs::write(path.join("config.toml"), config).unwrap();
    let mut rows = "step,train/loss,val/loss,train/grad_norm,quant/overflow_rate\n".to_string();
    for step in 0..10u32 {
        let now = loss + f64::from(10 - step) / 10.0;
        writeln!(rows, "{step},{now},{now},1.0,0.001").unwrap();
    }
    fs::write(path.join("metrics.csv"), rows).unwrap();
    let status = serde_json::json!({
        "name": name, "status": "completed", "steps": 10, "final_val_loss": loss, "best_val_loss": loss, "best_val_step": 10,
        "environment": { "device": "cpu", "plugins": [] },
    });
    fs::write(path.join("run.json"), status.to_string()).unwrap();
    path
}

fn compared(folder: &Path) -> (FoundRuns, Vec<Group>, Comparison) {
    let found = find(&[folder.to_path_buf()]);
    let groups = groups(&found.runs);
    let comparison = Comparison::new(&found.runs, &groups, Choice::default());
    (found, groups, comparison)
}

/// Values of a chart of runs, as CSV.
fn chart(found: &FoundRuns, groups: &[Group], comparison: &Comparison, name: &str) -> String {
    let view = page::View::default();
    let charts = page::PageInput { title: "t", found, groups, comparison, view: &view }.charts();
    charts.into_iter().find(|(chart, ..)| chart == name).unwrap().2
}

fn rendered(title: &str, found: &FoundRuns, groups: &[Group], comparison: &Comparison) -> String {
    let view = page::View::default();
    page::PageInput { title, found, groups, comparison, view: &view }.page(false).unwrap()
}

/// Losses by format, one a seed.
fn matrix(losses: &[(&str, &[f64])]) -> Comparison {
    let folder = TempDir::new().unwrap();
    for (format, losses) in losses {
        for (seed, loss) in losses.iter().enumerate() {
            run(folder.path(), &format!("{format}_{seed}"), format, seed as u64, *loss);
        }
    }
    compared(folder.path()).2
}

#[test]
fn seeds_decide_what_is_told_apart() {
    // Variation that seeds share cancels in pairs: differences are 0.1 and a small rest.
    let apart = matrix(&[("none", &[2.0, 2.5, 3.0]), ("E4M3", &[2.1, 2.601, 3.099])]);
    assert_eq!(apart.separated.len(), 1);
    assert_eq!((apart.separated[0].lower.as_str(), apart.separated[0].higher.as_str()), ("fp32", "E4M3 w"));
    assert_eq!(apart.ranking[0], "1 of 1 differences from the baseline are significant.");
    let noise = matrix(&[("none", &[2.0, 2.5, 3.0]), ("E4M3", &[2.1, 2.3, 3.2]), ("E5M2", &[2.2, 2.4, 3.0])]);
    assert!(
        noise.separated.is_empty()
            && noise.ranking[0]
                .starts_with("No difference from the baseline is significant. That is no evidence"),
        "{:?}",
        noise.ranking
    );
    let labels: Vec<&str> = noise.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["fp32", "E4M3 w", "E5M2 w"], "the baseline, then by name");
    let one = matrix(&[("E5M2", &[9.0]), ("E4M3", &[2.1])]);
    assert!(one.ranking[0].contains("there is no baseline") && one.baseline().is_none());
    assert_eq!(one.rows[0].verdict, LossVerdict::NotComparable);
}

#[test]
fn verdicts_are_about_the_interval() {
    let verdict = |losses: &[f64]| {
        let rows = matrix(&[("none", &[2.0, 2.1]), ("E4M3", losses)]).rows;
        rows.iter().find(|row| row.label == "E4M3 w").unwrap().verdict
    };
    assert_eq!(verdict(&[2.01, 2.111]), LossVerdict::Within);
    assert_eq!(verdict(&[3.0, 3.101]), LossVerdict::Worse);
    assert_eq!(verdict(&[1.0, 1.101]), LossVerdict::Better);
    assert_eq!(verdict(&[2.0, 2.5]), LossVerdict::Open, "the interval reaches from far below to far above");
    assert_eq!(verdict(&[2.1]), LossVerdict::Within, "of one seed the ratio counts");
}

#[test]
fn a_failed_run_does_not_lend_its_last_good_loss() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    let lost = run(folder.path(), "b", "E4M3", 1, 2.0);
    fs::write(lost.join("run.json"), r#"{"name": "b", "status": "failed", "steps": 10, "error": "NaN"}"#)
        .unwrap();
    let (found, _, comparison) = compared(folder.path());
    assert_eq!((comparison.rows[1].loss, comparison.rows[1].verdict), (None, LossVerdict::Failed));
    // A run that ended with a loss of NaN, as JSON writes it.
    let status = r#"{"name": "c", "status": "completed", "steps": 10, "final_val_loss": null}"#;
    let ended = run(folder.path(), "c", "E5M2", 1, 2.0);
    fs::write(ended.join("run.json"), status).unwrap();
    assert_eq!(compared(folder.path()).2.rows[2].verdict, LossVerdict::Failed);
    assert!(comparison.notes.iter().any(|note| note.contains("1 of 1 runs have no final loss")));
    let failures = super::failures::of(&found.runs[1]);
    assert_eq!(failures[0].class, "early stop");
    assert!(failures[0].evidence.contains("NaN"));
}

#[test]
fn the_same_seed_twice_is_one_piece_of_evidence() {
    let folder = TempDir::new().unwrap();
    for name in ["a", "b", "c"] {
        run(folder.path(), name, "E4M3", 1, 2.0);
    }
    let (_, groups, comparison) = compared(folder.path());
    assert_eq!((groups[0].runs.len(), groups[0].repeated.len()), (1, 2));
    assert_eq!(comparison.rows[0].loss.unwrap().n, 1);
    assert!(
        comparison.notes.iter().any(|note| note.contains("/b, ") && note.contains("/c repeat the seed")),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn labels_say_shortly_how_states_are_stored() {
    let codes = |format: &str, block: u32, rounding: &str| {
        format!("{{ format = \"{format}\", block = {block}, rounding = \"{rounding}\" }}")
    };
    let (e4m3, e5m2) = (codes("E4M3", 128, "nearest-even"), codes("E5M2", 64, "stochastic"));
    let cases = [
        ("{}".to_string(), "E4M3 w"),
        ("{ exp_avg = \"bf16\", exp_avg_sq = \"bf16\" }".to_string(), "E4M3 w · states bf16"),
        (format!("{{ exp_avg = {e4m3}, exp_avg_sq = {e4m3} }}"), "E4M3 w · states E4M3/128"),
        (
            format!("{{ exp_avg = \"bf16\", exp_avg_sq = {e5m2} }}"),
            "E4M3 w · exp_avg bf16 · exp_avg_sq E5M2/64 stochastic",
        ),
    ];
    let folder = TempDir::new().unwrap();
    for (index, (states, _)) in cases.iter().enumerate() {
        let config = run(folder.path(), &format!("{index}"), "E4M3", 1, 2.0).join("config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("[quant]", &format!("states = {states}\n[quant]"))).unwrap();
    }
    let (_, groups, _) = compared(folder.path());
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    let mut expected = cases.each_ref().map(|(_, label)| *label);
    expected.sort_unstable();
    assert_eq!(labels, expected);
}

/// Another end, and evaluations up to it.
fn shorten(path: &Path, steps: u64, loss: f64) {
    let rows = fs::read_to_string(path.join("metrics.csv")).unwrap();
    let rows: Vec<&str> = rows.lines().take(1 + steps as usize).collect();
    fs::write(path.join("metrics.csv"), rows.join("\n") + "\n").unwrap();
    let status =
        serde_json::json!({ "name": "cut", "status": "interrupted", "steps": steps, "final_val_loss": loss });
    fs::write(path.join("run.json"), status.to_string()).unwrap();
}

#[test]
fn runs_of_other_lengths_are_held_against_each_other_where_both_were() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    shorten(&run(folder.path(), "b", "E4M3", 1, 2.0), 5, 2.9);
    let (_, _, comparison) = compared(folder.path());
    let row = &comparison.rows[1];
    // Both evaluated step 5: 2.9 at the end of one, 2.5 on the way of the other.
    assert_eq!((row.compared_at, row.verdict), (Some([5, 5]), LossVerdict::Worse));
    assert!(comparison.notes.iter().any(|note| note.contains("at step 5, the last at which both")));
    // Nothing but untrained models in common.
    shorten(&folder.path().join("b"), 1, 2.0);
    fs::write(
        folder.path().join("b/run.json"),
        r#"{"status": "completed", "steps": 11, "final_val_loss": 2.0}"#,
    )
    .unwrap();
    let (_, _, comparison) = compared(folder.path());
    assert_eq!(comparison.rows[1].verdict, LossVerdict::NotComparable);
    assert!(comparison.notes.iter().any(|note| note.contains("no ratio")), "{:?}", comparison.notes);
}

#[test]
fn losses_of_a_sample_and_of_the_whole_split_are_not_compared() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    let whole = run(folder.path(), "b", "E4M3", 1, 2.2);
    let status = r#"{"status": "completed", "steps": 10, "final_val_loss": 1.0, "final_evaluation": "full"}"#;
    fs::write(whole.join("run.json"), status).unwrap();
    let (found, _, comparison) = compared(folder.path());
    let row = &comparison.rows[1];
    assert_eq!(row.loss.unwrap().mean, 1.0, "the loss at the end is what run.json says");
    assert_eq!(row.compared_at, Some([9, 9]), "the last step that both evaluated by sample");
    assert!((row.difference.unwrap().mean - 0.2).abs() < 1e-12);
    assert!(
        comparison.notes.iter().any(|note| note.contains("evaluated in the same way")),
        "{:?}",
        comparison.notes
    );
    assert_eq!(found.runs[1].best_loss().map(|(step, _)| step), Some(9), "of the sampled ones");
    // If both are of the whole split, the final losses are compared.
    let status = status.replace("1.0", "0.9");
    fs::write(folder.path().join("a/run.json"), status).unwrap();
    let (_, _, comparison) = compared(folder.path());
    assert_eq!(comparison.rows[1].compared_at, Some([10, 10]));
}

#[test]
fn of_two_runs_of_a_seed_the_longer_counts() {
    let folder = TempDir::new().unwrap();
    shorten(&run(folder.path(), "a", "E4M3", 1, 2.0), 5, 2.5);
    run(folder.path(), "b", "E4M3", 1, 2.0);
    let (found, groups, _) = compared(folder.path());
    assert!(found.runs[groups[0].runs[0]].path.ends_with("b"));
}

#[test]
fn names_cannot_break_the_page() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    let evil = run(folder.path(), "b", "E4M3", 1, 2.1);
    let name = "</script><script>alert(1)</script><!-- & \"'";
    let status = fs::read_to_string(evil.join("run.json")).unwrap();
    let name_json = serde_json::to_string(name).unwrap();
    fs::write(evil.join("run.json"), status.replace("\"name\":\"b\"", &format!("\"name\":{name_json}")))
        .unwrap();
    fs::write(
        evil.join("events.jsonl"),
        format!(
            "{{\"step\":1,\"level\":\"warn\",\"kind\":\"overflow\",\"text\":{name_json},\"value\":null}}\n"
        ),
    )
    .unwrap();
    let (found, groups, comparison) = compared(folder.path());
    let title = "<i>&";
    let page = rendered(title, &found, &groups, &comparison);
    assert_eq!(page.matches("alert(1)</script>").count(), 0);
    assert_eq!(page.matches("<script").count() - page_scripts(), 0, "no script but the page's own");
    assert!(page.contains("&lt;script&gt;alert(1)"), "the name is shown");
}

/// The contents of each element of that name that a browser would run or apply, in order.
fn elements<'a>(mut page: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    while let Some((element, rest)) = page.split_once(open).and_then(|(_, rest)| rest.split_once(close)) {
        found.push(element);
        page = rest;
    }
    found
}

#[test]
fn the_page_may_run_what_it_holds_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    let (found, groups, comparison) = compared(folder.path());
    let page = rendered("t", &found, &groups, &comparison);
    let head = page.find("</head>").unwrap();
    let policy = elements(&page[..head], "<meta http-equiv=\"Content-Security-Policy\" content=\"", "\">")[0];
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    for (own, text) in [("script-src", "<script>"), ("style-src-elem", "<style>")] {
        let directive = policy.split("; ").find_map(|directive| directive.strip_prefix(own)).unwrap();
        let close = text.replace('<', "</");
        let own = elements(&page, text, &close);
        assert_eq!(own.len(), 1);
        for text in own {
            let sum = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, sha2::Sha256::digest(text));
            assert!(directive.contains(&format!("'sha256-{sum}'")), "{directive}");
        }
        assert!(!directive.contains("unsafe"), "{directive}");
    }
}

#[test]
fn rows_that_were_lost_are_shown() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "whole", "none", 1, 2.0);
    let lost = run(folder.path(), "lost", "E4M3", 1, 2.0);
    let status = r#"{"name": "lost", "status": "completed", "steps": 10, "final_val_loss": 2.0, "sinks": [
        {"name": "csv", "rows": 8, "missing_rows": 2, "missing_events": 1, "missing_from_step": 4,
         "gaps": ["metrics.csv: 3 of 6 rows are <missing>, those of steps 3 to 5"]},
        {"name": "wandb", "rows": 10, "missing_rows": 0, "missing_events": 0, "gaps": []}]}"#;
    fs::write(lost.join("run.json"), status).unwrap();
    let (found, groups, comparison) = compared(folder.path());
    let table = super::tables::missing(&found.runs);
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|cell| cell.show("-")).collect()).collect();
    let gap = "metrics.csv: 3 of 6 rows are <missing>, those of steps 3 to 5";
    assert_eq!(rows, [["lost", "csv", "2", "1", "4", gap]]);
    let page = rendered("t", &found, &groups, &comparison);
    assert!(page.contains("3 of 6 rows are &lt;missing&gt;, those of steps 3 to 5"));
    assert!(page.contains("Sinks of 1 run lack rows or events"));
    // Without lost rows there is no remark.
    fs::remove_dir_all(lost).unwrap();
    let (found, groups, comparison) = compared(folder.path());
    let page = rendered("t", &found, &groups, &comparison);
    assert!(!page.contains("table-missing") && !page.contains("lack rows or events"));
}

/// The count of `<script` in a page without relevant runs: its own, and mentions in its text.
fn page_scripts() -> usize {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    let (found, groups, comparison) = compared(folder.path());
    rendered("t", &found, &groups, &comparison).matches("<script").count()
}

#[test]
fn folders_of_runs_are_searched_and_others_are_named() {
    let folder = TempDir::new().unwrap();
    run(&folder.path().join("sweep/deep"), "a", "none", 1, 2.0);
    run(&folder.path().join("sweep"), "b", "none", 2, 2.0);
    fs::create_dir_all(folder.path().join("sweep/empty")).unwrap();
    fs::create_dir_all(folder.path().join("sweep/.hidden")).unwrap();
    let twice = [folder.path().join("sweep"), folder.path().join("sweep/b")];
    let found = find(&twice);
    let names: Vec<&str> = found.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "each once");
    assert_eq!(found.left_out.len(), 1);
    assert!(found.left_out[0].path.ends_with("sweep/empty") && found.left_out[0].reason == "it is empty");
}

/// The same run in the form of earlier versions, a column per metric of layers and edges in every row, and in today's.
#[test]
fn both_forms_of_a_run_folder_read_the_same() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus/run-folder"));
    let [earlier, today] = ["sound", "rows-of-values"].map(|name| Run::read(&corpus.join(name)).unwrap());
    assert!(!today.layers.is_empty() && !today.histograms.codes.is_empty());
    assert_eq!(earlier.layers, today.layers);
    assert_eq!(format!("{:?}", earlier.histograms), format!("{:?}", today.histograms));
}

/// Any bytes in any of the files: a run or a reason, and a page. More of it is in the workspace's fuzz tests.
#[test]
fn garbage_is_a_reason_and_never_a_crash() {
    let files = [
        "run.json",
        "config.toml",
        "metrics.csv",
        "layers.csv",
        "timings.csv",
        "histograms.csv",
        "events.jsonl",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let words: [&[u8]; 9] = [b"\n", b",", b"\"", b"NaN", b"step", b"{", b"]", b"1e999", b"\xff"];
    for case in 0..140 {
        let folder = TempDir::new().unwrap();
        let path = run(folder.path(), "a", "E4M3", 1, 2.0).join(files[case % files.len()]);
        let mut bytes = fs::read(&path).unwrap_or_default();
        bytes.truncate(random(400));
        (0..random(40)).for_each(|_| bytes.extend(words[random(words.len())]));
        fs::write(path, bytes).unwrap();
        let (found, groups, comparison) = compared(folder.path());
        assert_eq!(found.runs.len() + found.left_out.len(), 1);
        rendered("t", &found, &groups, &comparison);
    }
}
