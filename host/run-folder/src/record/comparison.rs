//! The comparison that a sweep requests for its runs: `compare` in `sweep.json`.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file with the results of a sweep.
pub const SWEEP_RESULT: &str = "sweep.json";

/// The contents of `[compare]` of a matrix file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonChoice {
    /// The baseline: a configuration's label, or a run's name.
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
        let bytes = altgrad_base::files::read(&folder.join(SWEEP_RESULT)).ok()?;
        let mut result: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        serde_json::from_value(result.get_mut("compare")?.take()).ok()
    }

    /// True if the margin is between 0 and 1.
    #[must_use]
    pub fn is_margin(margin: f64) -> bool {
        margin > 0.0 && margin < 1.0
    }
}
