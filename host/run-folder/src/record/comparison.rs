//! The parts of `sweep.json` that comparisons read: the comparison that the matrix file requests, and the labels of its runs.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file with the results of a sweep.
pub const SWEEP_RESULT: &str = "sweep.json";

/// The contents of `[compare]` of a matrix file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonChoice {
    /// The baseline: the part of its runs' names that the baseline's axis value gives, such as `fp32`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The margin: the largest relative deviation from the baseline's loss that counts as
    /// equivalent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
}

impl ComparisonChoice {
    /// The choice in a sweep's folder; `None` without such a file, or if it has none.
    #[must_use]
    pub fn of_sweep(folder: &Path) -> Option<Self> {
        serde_json::from_value(result(folder)?.get_mut("compare")?.take()).ok()
    }

    /// True if the margin is between 0 and 1.
    #[must_use]
    pub fn is_margin(margin: f64) -> bool {
        margin > 0.0 && margin < 1.0
    }
}

/// The labels of a sweep's runs by the name of their folders: the labels of the `[[axes.NAME]]` entries that made each run, in
/// the order of the names of the axes. Empty without `sweep.json`, or if the matrix file has no such entries.
#[must_use]
pub fn labels_of_sweep(folder: &Path) -> BTreeMap<String, String> {
    let Some(result) = result(folder) else { return BTreeMap::new() };
    let runs = result.get("runs").and_then(Value::as_array).into_iter().flatten();
    let label = |run: &Value| {
        // Axes with a point in their names are keys of the run file.
        let axes = run.get("axes")?.as_object()?.iter().filter(|(axis, _)| !axis.contains('.'));
        let labels: Vec<&str> = axes.filter_map(|(_, label)| label.as_str()).collect();
        let name = run.get("name")?.as_str()?.to_string();
        (!labels.is_empty()).then(|| (name, labels.join(" · ")))
    };
    runs.filter_map(label).collect()
}

fn result(folder: &Path) -> Option<Value> {
    serde_json::from_slice(&altgrad_base::files::read(&folder.join(SWEEP_RESULT)).ok()?).ok()
}
