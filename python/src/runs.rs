//! Run folders: which there are, and how their results compare. Metrics are read in Python, as frames.

use std::path::PathBuf;

use altgrad_report::{
    compare::{Comparison, ComparisonChoice},
    find::{self, FoundRuns},
    group,
    run::Run,
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::{Value, json};

use crate::errors::exception;

/// Threads that read run folders. They run for one call, because a pool does not survive `fork`.
fn found(paths: &[PathBuf]) -> PyResult<FoundRuns> {
    let pool = rayon::ThreadPoolBuilder::new().build();
    let pool = pool.map_err(|error| PyValueError::new_err(format!("cannot start threads: {error}")))?;
    Ok(pool.install(|| find::find(paths)))
}

fn described(run: &Run) -> Value {
    let files = run.config.csv_files();
    let last = run.final_loss();
    json!({
        "name": run.name,
        "path": run.path,
        "state": run.state.name(),
        "steps": run.steps,
        "seed": run.seed(),
        "format": group::format_label(&run.config),
        "loss": last.map(|last| last.loss),
        "notes": run.notes,
        "files": {
            "metrics": if run.path.is_file() { run.path.clone() } else { run.path.join(&files.metrics) },
            "layers": run.path.join(&files.layers),
            "timings": run.path.join(&files.timings),
            "histograms": run.path.join(&files.histograms),
            "events": run.path.join("events.jsonl"),
        },
    })
}

/// The runs of folders, as JSON: runs, and what was left out. JSON has no paths that are not UTF-8, so that their runs
/// are left out.
#[pyfunction]
pub(crate) fn find_runs(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<String> {
    let found = py.detach(|| found(&paths))?;
    let (runs, unnamed): (Vec<&Run>, Vec<&Run>) =
        found.runs.iter().partition(|run| run.path.to_str().is_some());
    let left_out = found.left_out.iter().map(|left| (&left.path, left.reason.as_str()));
    let left_out = left_out.chain(unnamed.iter().map(|run| (&run.path, "its path is not valid UTF-8")));
    let left_out: Vec<Value> =
        left_out.map(|(path, reason)| json!({ "path": path.to_string_lossy(), "reason": reason })).collect();
    let runs: Vec<Value> = runs.into_iter().map(described).collect();
    Ok(json!({ "runs": runs, "left_out": left_out }).to_string())
}

/// The comparison of `altgrad-host compare`, as JSON.
#[pyfunction]
#[pyo3(signature = (paths, baseline=None, margin=None, all_pairs=false))]
pub(crate) fn compare_runs(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    baseline: Option<String>,
    margin: Option<f64>,
    all_pairs: bool,
) -> PyResult<String> {
    let found = py.detach(|| found(&paths))?;
    let groups = group::groups(&found.runs);
    let user = ComparisonChoice { baseline, margin };
    let comparison = Comparison::requested(&found, &groups, &user, all_pairs).map_err(exception)?;
    serde_json::to_string(&comparison).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Names and texts of the shipped recipes.
#[pyfunction]
pub(crate) fn recipes() -> Vec<(&'static str, &'static str)> {
    altgrad_config::RECIPES.to_vec()
}
