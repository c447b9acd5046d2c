//! The causes of a run's loss increase that `blame` found: its result beside the run folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The file of the result, in the folder of the search.
pub const RECORD: &str = "blame.json";

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CauseSearch {
    /// The result in a sentence.
    pub sentence: String,
    /// False if the search was stopped or its budget is spent.
    pub is_complete: bool,
    /// The step at which its runs begin.
    pub from: u64,
    /// The step at which they end.
    pub steps: u64,
    /// The tested groups, by level of their tree.
    pub levels: Vec<Vec<TestedGroup>>,
    /// The steps in which causes matter.
    pub windows: Vec<CauseWindow>,
}

/// The effects of a group of casts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TestedGroup {
    /// Its name.
    pub name: String,
    /// The loss of the run minus that without the group's rounding.
    pub undone: MeasuredEffect,
    /// The loss of the unrounded run with only this rounding minus that without.
    pub alone: MeasuredEffect,
    /// True if one of them is significant and at least a tenth of the total increase.
    pub is_material: bool,
}

/// A difference of losses, nats per token.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct MeasuredEffect {
    /// The mean over seeds.
    pub mean: f64,
    /// Half the width of its interval, corrected for the number of tests; missing if it is infinite.
    pub half_width: Option<f64>,
}

/// The steps in which a cause matters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CauseWindow {
    /// The cause.
    pub name: String,
    /// Steps, and the part of its effect that is recovered if it is undone before the step.
    pub recovered: Vec<(u64, f64)>,
}

impl CauseWindow {
    /// The part of the effect that is recovered by undoing the cause before a step, between measured steps on a line.
    #[must_use]
    pub fn recovered_before(&self, step: f64) -> Option<f64> {
        self.recovered.windows(2).find_map(|pair| {
            let [(from, low), (until, high)] = [pair[0], pair[1]].map(|(step, part)| (step as f64, part));
            (from <= step && step <= until && from < until)
                .then(|| low + (high - low) * (step - from) / (until - from))
        })
    }
}

/// The folder of the search beside a run folder or a run file.
#[must_use]
pub fn folder(run: &Path) -> PathBuf {
    let stem = run.file_stem().unwrap_or_default().to_string_lossy();
    run.with_file_name(format!("{stem}-blame"))
}

/// The result for a run, if there is one.
pub(super) fn read(run: &Path) -> Result<(Option<CauseSearch>, u64), String> {
    match fs::read(folder(run).join(RECORD)) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(|found| (Some(found), 0)).map_err(|error| error.to_string())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, 0)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_on_lines_between_measured_steps() {
        let recovered = vec![(0, 0.0), (50, 0.0), (80, 0.9), (160, 1.0)];
        let window = CauseWindow { name: "a".into(), recovered };
        assert_eq!(window.recovered_before(25.0), Some(0.0));
        assert!(window.recovered_before(65.0).is_some_and(|part| (part - 0.45).abs() < 1e-12));
        assert_eq!(window.recovered_before(161.0), None);
    }
}
