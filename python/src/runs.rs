//! Run folders: which there are, and how their results compare. Metrics are read in Python, as frames.

use std::path::PathBuf;

use altgrad_report::{
    compare::{self, Choice, Comparison},
    find::{self, FoundRuns},
    group,
    run::Run,
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::{Value, json};

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

/// The runs of folders, as JSON: runs, and what was left out.
#[pyfunction]
pub(crate) fn find_runs(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<String> {
    let found = py.detach(|| found(&paths))?;
    let left_out: Vec<Value> =
        found.left_out.iter().map(|left| json!({ "path": left.path, "reason": left.reason })).collect();
    let runs: Vec<Value> = found.runs.iter().map(described).collect();
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
    let named = baseline.or_else(|| found.choice.baseline.clone());
    let index = named.as_deref().and_then(|name| compare::named(&found.runs, &groups, name));
    if let (Some(named), None) = (&named, index) {
        let known: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
        let known = known.join(", ");
        return Err(PyValueError::new_err(format!(
            "no run or configuration is called `{named}`; there are: {known}"
        )));
    }
    let margin = margin.or(found.choice.margin).unwrap_or(compare::MARGIN);
    if !(margin > 0.0 && margin < 1.0) {
        return Err(PyValueError::new_err(format!("the margin must lie between 0 and 1, found {margin}")));
    }
    let choice = Choice { baseline: index, margin, all_pairs };
    let comparison = Comparison::new(&found.runs, &groups, choice);
    serde_json::to_string(&comparison).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Names and texts of the shipped recipes.
#[pyfunction]
pub(crate) fn recipes() -> Vec<(&'static str, &'static str)> {
    altgrad_config::RECIPES.to_vec()
}
