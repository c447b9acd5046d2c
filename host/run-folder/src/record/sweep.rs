//! The parts of `sweep.json` that others than its writer read: the threads of the runs, the comparison that the matrix
//! file requests, and the labels of the runs.

use std::{collections::BTreeMap, num::NonZeroUsize, path::Path};

use altgrad_base::{diagnostic::Diagnostic, files};
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
    /// True if the margin is between 0 and 1.
    #[must_use]
    pub fn is_margin(margin: f64) -> bool {
        margin > 0.0 && margin < 1.0
    }
}

/// The record of a sweep. Missing values are unknown.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct SweepRecord {
    /// Threads of each run.
    pub threads: Option<NonZeroUsize>,
    /// The comparison that the matrix file requests.
    pub compare: Option<ComparisonChoice>,
    runs: Vec<SweptRun>,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct SweptRun {
    /// Its name, and that of its folder.
    name: String,
    /// The value of each axis.
    axes: BTreeMap<String, Value>,
}

impl SweepRecord {
    /// Reads the record in a sweep's folder; `Ok(None)` without one.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(folder: &Path) -> Result<Option<Self>, Diagnostic> {
        let path = folder.join(SWEEP_RESULT);
        let damaged = |error: &dyn std::fmt::Display| {
            Diagnostic::config(format!("the sweep's results cannot be read ({error})")).at(path.display())
        };
        let bytes = files::read_if_exists(&path).map_err(|error| damaged(&error))?;
        bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose().map_err(|error| damaged(&error))
    }

    /// The labels of the `[[axes.NAME]]` entries that made a run, in the order of the names of the axes. `None` for a
    /// run of another name, or if the matrix file has no such entries.
    #[must_use]
    pub fn label(&self, run: &str) -> Option<String> {
        let run = self.runs.iter().find(|known| known.name == run)?;
        // Axes with a point in their names are keys of the run file.
        let axes = run.axes.iter().filter(|(axis, _)| !axis.contains('.'));
        let labels: Vec<&str> = axes.filter_map(|(_, label)| label.as_str()).collect();
        (!labels.is_empty()).then(|| labels.join(" · "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_record_is_none_and_a_damaged_one_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SWEEP_RESULT);
        assert_eq!(SweepRecord::read(folder.path()), Ok(None));
        fs::write(&path, r#"{"threads": 2, "compare": {"baseline": "fp32"}, "runs": [{"name": "a_s1", "axes": {"b": "y", "a": "x", "run.seed": 1}}, {"name": "c"}]}"#).unwrap();
        let record = SweepRecord::read(folder.path()).unwrap().unwrap();
        assert_eq!(record.threads.map(usize::from), Some(2));
        assert_eq!(record.compare.as_ref().unwrap().baseline.as_deref(), Some("fp32"));
        assert_eq!(["a_s1", "c", "d"].map(|run| record.label(run)), [Some("x · y".into()), None, None]);
        // The file of a run is no folder of a sweep.
        assert_eq!(SweepRecord::read(&path), Ok(None));
        for damaged in ["", "{\"threads\": 2", "{\"threads\": 0}", "{\"compare\": {\"base\": \"x\"}}"] {
            fs::write(&path, damaged).unwrap();
            let error = SweepRecord::read(folder.path()).unwrap_err();
            assert!(error.message.starts_with("the sweep's results cannot be read ("), "{error}");
            assert_eq!(error.place, Some(path.display().to_string()));
        }
    }
}
