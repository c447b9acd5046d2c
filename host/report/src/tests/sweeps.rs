//! Runs of sweeps: their labels, and the comparison that the sweeps request.

use std::{fs, path::Path};

use serde_json::json;
use tempfile::TempDir;

use super::run_with;
use crate::{
    compare::{Comparison, ComparisonChoice, MARGIN},
    find::find,
    group::groups,
};

/// The result of a sweep over formats and optimizers, and its runs.
fn sweep(folder: &Path, formats: &[&str], optimizers: &[(&str, &str)], compare: &serde_json::Value) {
    let mut runs = Vec::new();
    for (label, optimizer) in optimizers {
        for format in formats {
            let name = format!("{format}_{label}");
            let quant = format!("weight = \"{format}\"\nactivation = \"E4M3\"\n[train]\nmax_steps = 10\n");
            let config = run_with(folder, &name, &quant, 1, 2.0).join("config.toml");
            let text = fs::read_to_string(&config).unwrap();
            fs::write(config, text.replace("\"adamw\"", &format!("{optimizer:?}"))).unwrap();
            runs.push(json!({ "name": name, "axes": { "optimizer": label, "quant.weight": format } }));
        }
    }
    let result = json!({ "runs": runs, "compare": compare });
    fs::write(folder.join("sweep.json"), result.to_string()).unwrap();
}

#[test]
fn configurations_that_share_a_label_are_told_apart_by_their_formats() {
    let folder = TempDir::new().unwrap();
    let optimizers = [("adamw", "adamw"), ("manifold", "fp8-manifold"), ("lion", "lion")];
    sweep(folder.path(), &["E4M3", "E5M2"], &optimizers[..2], &json!(null));
    let labels = |folder: &Path| {
        let runs = find(&[folder.to_path_buf()]).runs;
        groups(&runs).into_iter().map(|group| group.label).collect::<Vec<_>>()
    };
    let [e4m3, e5m2] = ["E4M3 w+a", "E5M2 w · E4M3 a"];
    assert_eq!(
        labels(folder.path()),
        [
            format!("adamw · {e4m3}"),
            format!("adamw · {e5m2}"),
            format!("manifold · {e4m3} · fp8-manifold"),
            format!("manifold · {e5m2} · fp8-manifold"),
        ]
    );
    // A label that no other configuration has needs nothing else.
    let folder = TempDir::new().unwrap();
    sweep(folder.path(), &["E4M3"], &optimizers, &json!(null));
    assert_eq!(labels(folder.path()), ["adamw", "lion", "manifold"]);
}

/// Runs of a recipe are called by it, with their formats where these differ; runs of earlier versions do not say it.
#[test]
fn recipes_name_their_runs() {
    let folder = TempDir::new().unwrap();
    let casts = |more: &str, weight: &str| {
        format!("weight = \"{weight}\"\nactivation = \"E2M1\"\n{more}[train]\nmax_steps = 10\n")
    };
    let labels = || {
        let runs = find(&[folder.path().to_path_buf()]).runs;
        groups(&runs).into_iter().map(|group| (group.label, group.runs.len())).collect::<Vec<_>>()
    };
    run_with(folder.path(), "a", &casts("from_recipe = \"nvfp4\"\n", "E2M1"), 1, 2.0);
    run_with(folder.path(), "b", &casts("from_recipe = \"nvfp4\"\n", "E2M1"), 2, 2.0);
    run_with(folder.path(), "c", &casts("", "E4M3"), 1, 2.0);
    let plain = ("E4M3 w · E2M1 a".to_owned(), 1);
    assert_eq!(labels(), [plain.clone(), ("nvfp4".into(), 2)]);
    // The same keys without the name are repetitions.
    run_with(folder.path(), "d", &casts("", "E2M1"), 3, 2.0);
    assert_eq!(labels(), [plain.clone(), ("nvfp4".into(), 3)]);
    run_with(folder.path(), "e", &casts("from_recipe = \"nvfp4\"\n", "INT4"), 1, 2.0);
    let others = [("nvfp4 · E2M1 w+a".to_owned(), 3), ("nvfp4 · INT4 w · E2M1 a".to_owned(), 1)];
    assert_eq!(labels(), [&[plain][..], &others].concat());
}

#[test]
fn the_comparison_of_a_sweep_counts_however_its_runs_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sw");
    sweep(&path, &["none", "E4M3"], &[("adamw", "adamw")], &json!({ "baseline": "none", "margin": 0.05 }));
    run_with(folder.path(), "alone", "weight = \"E5M2\"\n", 1, 2.0);
    let run = path.join("E4M3_adamw");
    for named in [path, folder.path().to_path_buf(), run] {
        let found = find(&[named]);
        assert_eq!(found.choice.baseline.as_deref(), Some("none"));
        assert_eq!((found.choice.margin, found.left_out.len()), (Some(0.05), 0));
    }
}

#[test]
fn sweeps_that_request_other_comparisons_have_the_default_one_with_a_remark() {
    let folder = TempDir::new().unwrap();
    for (name, compare) in [
        ("a", json!({ "margin": 0.05 })),
        ("b", json!(null)),
        ("c", json!({ "margin": 0.05 })),
        ("d", json!({ "margin": 0.2 })),
    ] {
        sweep(&folder.path().join(name), &["E4M3"], &[("adamw", "adamw")], &compare);
    }
    let paths = |names: &[&str]| names.iter().map(|name| folder.path().join(name)).collect::<Vec<_>>();
    let agreeing = find(&paths(&["a", "b", "c"]));
    assert_eq!((agreeing.choice.margin, agreeing.left_out.len()), (Some(0.05), 0));
    let differing = find(&paths(&["a", "d"]));
    assert_eq!((differing.choice.margin, differing.left_out.len()), (None, 1));
    assert_eq!(differing.left_out[0].path, folder.path().join("d/sweep.json"));
}

#[test]
fn an_impossible_request_is_an_error_of_a_user_and_a_note_of_a_sweep() {
    let folder = TempDir::new().unwrap();
    let request = json!({ "baseline": "bf16", "margin": 1.5 });
    sweep(folder.path(), &["E4M3", "E5M2"], &[("adamw", "adamw")], &request);
    let found = find(&[folder.path().to_path_buf()]);
    let groups = groups(&found.runs);
    let compared = |baseline: Option<&str>, margin: Option<f64>| {
        let user = ComparisonChoice { baseline: baseline.map(str::to_string), margin };
        Comparison::requested(&found, &groups, &user, false)
    };
    let comparison = compared(None, None).unwrap();
    let last: Vec<&String> = comparison.notes.iter().rev().take(2).collect();
    assert!(last[1].starts_with("`[compare] baseline` of the sweep, `bf16`, is no single"), "{last:?}");
    assert!(last[0].starts_with("`[compare] margin` of the sweep, 1.5, does not lie"), "{last:?}");
    assert_eq!(comparison.margin, MARGIN);
    let own = compared(Some("E5M2_adamw"), Some(0.2)).unwrap();
    assert_eq!((own.margin, own.notes.iter().any(|note| note.contains("[compare]"))), (0.2, false));
    assert!(compared(Some("bf16"), None).unwrap_err().message.contains("is called `bf16`"));
    assert!(compared(None, Some(1.5)).unwrap_err().message.ends_with("found 1.5"));
}

#[test]
fn a_damaged_result_of_a_sweep_is_named() {
    let folder = TempDir::new().unwrap();
    sweep(folder.path(), &["E4M3"], &[("adamw", "adamw")], &json!({ "margin": 0.05 }));
    let file = folder.path().join("sweep.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let found = find(&[folder.path().to_path_buf()]);
    assert_eq!((found.runs.len(), found.choice.margin, &found.runs[0].label), (1, None, &None));
    let [left] = &found.left_out[..] else { panic!("{:?}", found.left_out) };
    assert_eq!(left.path, file);
    assert!(left.reason.starts_with("the sweep's results cannot be read ("), "{}", left.reason);
    assert!(left.reason.ends_with("its labels, baseline and margin are not used"), "{}", left.reason);
}
