//! Runs that were interrupted, that diverged, or that are shorter than others.

use std::fs;

use altgrad_metrics::{Role, Statistic, families::rounding::SQNR_DB};
use tempfile::TempDir;

use super::{chart, compared, run, shorten};
use crate::{compare::LossVerdict, run::Run, series::Series};

/// A run with a status that continues after its last good evaluation with a loss that is not finite.
fn lost(folder: &std::path::Path, name: &str, status: &str) -> Run {
    let path = run(folder, name, "E4M3", 1, 1.5);
    let rows = fs::read_to_string(path.join("metrics.csv")).unwrap();
    fs::write(path.join("metrics.csv"), rows + "10,NaN,NaN,NaN,0.001\n11,NaN,,NaN,0.001\n").unwrap();
    fs::write(path.join("run.json"), status).unwrap();
    Run::read(&path).unwrap()
}

#[test]
fn a_run_whose_newest_loss_is_not_finite_has_failed_in_any_state() {
    let states = [
        r#"{"name": "b", "status": "interrupted", "steps": 12, "final_val_loss": null}"#,
        r#"{"name": "b", "status": "running", "steps": 12}"#,
        r#"{"name": "b", "status": "runni"#,
    ];
    for status in states {
        let folder = TempDir::new().unwrap();
        run(folder.path(), "a", "none", 1, 2.0);
        let lost = lost(folder.path(), "b", status);
        assert!(lost.is_lost() && lost.final_loss().is_none(), "{status}");
        let (_, _, comparison) = compared(folder.path());
        assert_eq!(
            (comparison.rows[1].loss, comparison.rows[1].verdict),
            (None, LossVerdict::Failed),
            "{status}"
        );
    }
    // A later good evaluation counts.
    let folder = TempDir::new().unwrap();
    let path = lost(folder.path(), "b", states[0]).path;
    let rows = fs::read_to_string(path.join("metrics.csv")).unwrap();
    fs::write(path.join("metrics.csv"), rows + "12,3.0,3.0,1.0,0.001\n").unwrap();
    assert_eq!(Run::read(&path).unwrap().final_loss().map(|last| last.loss), Some(3.0));
}

#[test]
fn a_mean_continues_where_a_seed_was_interrupted() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "E4M3", 1, 2.0);
    run(folder.path(), "b", "E4M3", 2, 2.0);
    shorten(&run(folder.path(), "c", "E4M3", 3, 2.0), 3, 2.7);
    let (found, groups, comparison) = compared(folder.path());
    let csv = chart(&found, &groups, &comparison, "val_loss");
    assert!(csv.contains("E4M3 w,10,2,"), "{csv}");
}

#[test]
fn a_short_run_leaves_heat_maps_their_columns() {
    let folder = TempDir::new().unwrap();
    for (name, format) in [("a", "E4M3"), ("b", "E5M2"), ("c", "E3M4")] {
        run(folder.path(), name, format, 1, 2.0);
    }
    let (mut found, groups, comparison) = compared(folder.path());
    // Every tenth step: whole, ended early, and ended after the first measurement.
    for (run, measured) in found.runs.iter_mut().zip([20_u32, 5, 1]) {
        let mut series = Series::new(24);
        (0..measured).for_each(|index| series.add(u64::from(index) * 10, f64::from(index)));
        let sqnr = Statistic::new(&SQNR_DB).of_role(Role::Weight);
        run.layers.insert(sqnr, [("h.0.mlp.c_fc.weight".to_string(), series)].into());
    }
    let view = crate::page::View::default();
    let source = crate::page::PageInput {
        title: "t",
        found: &found,
        groups: &groups,
        comparison: &comparison,
        view: &view,
    };
    let cells = |csv: &str| {
        let cells: Vec<bool> = csv.lines().skip(1).map(|line| !line.ends_with(",,")).collect();
        (cells.len(), cells.iter().filter(|is_filled| **is_filled).count())
    };
    let maps: Vec<(usize, usize)> = source
        .charts()
        .iter()
        .filter(|(name, ..)| name.starts_with("maps"))
        .map(|(_, _, csv)| cells(csv))
        .collect();
    // By label: E3M4, E4M3, E5M2.
    assert_eq!(maps, [(20, 1), (20, 20), (20, 5)]);
}

#[test]
fn a_verdict_of_one_pair_says_so() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 2.0);
    for seed in [1, 2] {
        run(folder.path(), &format!("b{seed}"), "E4M3", seed, 2.1);
    }
    let (_, _, comparison) = compared(folder.path());
    assert_eq!(comparison.rows[1].loss.unwrap().n, 2);
    let table = crate::tables::comparison(&comparison);
    assert!(table.to_csv().contains("within margin (n = 1)"), "{}", table.to_csv());
}

#[test]
fn the_ends_of_losses_in_parallel_coordinates_differ() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "a", "none", 1, 1.9001);
    run(folder.path(), "b", "E4M3", 1, 1.9004);
    let (found, groups, comparison) = compared(folder.path());
    let csv = chart(&found, &groups, &comparison, "profile");
    assert!(csv.contains("held-out loss,"), "{csv}");
    let page = super::rendered("t", &found, &groups, &comparison);
    assert!(page.contains("held-out loss 1.9001") && page.contains("held-out loss 1.9004"));
}
