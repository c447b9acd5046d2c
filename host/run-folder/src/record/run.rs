//! `run.json`: progress and outcome of a run, and the programs and plugins that made it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    files,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{differences::Difference, sinks::SinkCounts};
use crate::folder::STATUS;

/// The state of a run, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It is running, or its process was killed.
    #[default]
    Running,
    /// It completed.
    Completed,
    /// The user stopped it.
    Interrupted,
    /// It failed.
    Failed,
    /// It ended with NaN or infinity in its loss or weights: at its last step, or because loss or gradients stayed so.
    NotFinite,
}

impl From<&Diagnostic> for RunStatus {
    /// The status of a run that ended with this error.
    fn from(error: &Diagnostic) -> Self {
        if error.fault == Fault::NotFinite { Self::NotFinite } else { Self::Failed }
    }
}

/// The part of a split that an evaluation predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluationKind {
    /// The windows of a sample.
    Sampled,
    /// Every token but the first.
    Full,
}

impl EvaluationKind {
    /// The name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Full => "full",
        }
    }
}

/// The contents of the file. Missing or `null` values are unknown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// The run's name.
    pub name: String,
    /// The run's state, or its end.
    pub status: RunStatus,
    /// The error of a failed run.
    pub error: Option<String>,
    /// Faults that did not stop it.
    pub faults: Vec<String>,
    /// Rows and events of each sink.
    pub sinks: Vec<SinkCounts>,
    /// Start of the run, of its first process if it was resumed: seconds since 1970, if the machine's clock was set.
    pub started_unix_s: Option<u64>,
    /// Time of the last writing: seconds since 1970, if the machine's clock was set.
    pub updated_unix_s: Option<u64>,
    /// Steps done, those before it was resumed included.
    pub steps: u64,
    /// Loss of the last step's batch before its update, nats per token.
    pub final_train_loss: Option<f64>,
    /// Held-out loss of the initial weights, nats per token, if they were evaluated.
    pub initial_val_loss: Option<f64>,
    /// Held-out loss of the final weights, nats per token.
    pub final_val_loss: Option<f64>,
    /// The evaluation that measured it.
    pub final_evaluation: Option<EvaluationKind>,
    /// Tokens that this evaluation predicted.
    pub final_val_tokens: Option<u64>,
    /// The lowest held-out loss of the evaluations during the run and of a final evaluation of the same kind, nats per
    /// token.
    pub best_val_loss: Option<f64>,
    /// The step before whose update it was measured.
    pub best_val_step: Option<u64>,
    /// True if the run was found to diverge, or is not finite.
    pub diverged: bool,
    /// The step at which divergence was found.
    pub diverged_step: Option<u64>,
    /// True if loss or gradients stayed NaN or infinite, or the final loss or weights are: also of an interrupted run.
    pub not_finite: bool,
    /// The number of alerts of each kind, by the name of the kind; kinds without an alert are left out.
    pub alerts: BTreeMap<String, u64>,
    /// Training tokens.
    pub tokens: u64,
    /// Seconds in steps, evaluation not counted.
    pub training_s: f64,
    /// Training tokens per second; `null` if no step was done.
    pub tokens_per_s: Option<f64>,
    /// Model FLOPs utilization of all steps: the time of their matrix products at `product_gflop_s`, over
    /// `training_s`; `null` if that rate was not measured.
    pub mfu: Option<f64>,
    /// The rate of one large product on the device, in the precision of training, before the first step of the newest
    /// process: 10^9 multiplications and additions per second.
    pub product_gflop_s: Option<f64>,
    /// `mfu` at `data_sheet_gflop_s`; missing for devices whose data sheet is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu_data_sheet: Option<f64>,
    /// The rate of such products on the data sheet of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_sheet_gflop_s: Option<f64>,
    /// The largest memory so far, MB: what the run has taken from a GPU's memory, on the CPU of the process.
    pub memory_mb: Option<f64>,
    /// Fingerprint of all token ids, as in checkpoints; runs of earlier versions do not record it.
    pub data_fingerprint: Option<String>,
    /// Unigram entropy of the corpus, nats per token: the loss of a model that knows only token frequencies.
    pub unigram_entropy: Option<f64>,
    /// Number of parameters, elements.
    pub parameters: usize,
    /// The newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Times it was resumed.
    pub resumes: Vec<Resume>,
    /// Changes of the casts, in their order.
    pub schedule: Vec<CastSwitch>,
    /// Number formats of the computations.
    pub computed: Value,
    /// The resolved run file, as in `config.toml`.
    pub config: Value,
    /// The programs and plugins that made it.
    pub environment: Environment,
}

impl RunRecord {
    /// The record in a run folder. `None` without the file, or if it is empty: a run has taken the folder and not yet
    /// begun.
    ///
    /// # Errors
    /// The file cannot be read, or is not the status of a run.
    pub fn read(folder: &Path) -> Result<Option<Self>, Diagnostic> {
        let path = folder.join(STATUS);
        let damaged = |why: &dyn std::fmt::Display| {
            Diagnostic::config(format!("the status of the run cannot be read ({why})")).at(path.display())
        };
        let contents = files::read_if_exists(&path).map_err(|error| damaged(&error))?;
        let Some(contents) = contents.filter(|contents| !contents.is_empty()) else { return Ok(None) };
        let value: Value = serde_json::from_slice(&contents).map_err(|error| damaged(&error))?;
        // Every other key may be missing.
        if value.get("status").is_none() {
            return Err(damaged(&"it has no `status`"));
        }
        serde_json::from_value(value).map(Some).map_err(|error| damaged(&error))
    }
}

/// A continuation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The step at which it resumed.
    pub step: u64,
    /// The checkpoint.
    pub from: String,
    /// Seconds since 1970, if the machine's clock was set.
    pub unix_s: Option<u64>,
    /// The differences from the earlier run.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

/// A change of the casts during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CastSwitch {
    /// The entry of `[[quant.schedule]]` that took effect, from 0.
    pub entry: usize,
    /// The first step with its casts.
    pub step: u64,
    /// Its trigger: `at step 400`, `on the alert kurtosis`.
    pub trigger: String,
}

/// Host, device, threads and libraries of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The host's version.
    pub host_version: String,
    /// The machine's name, if it has one.
    pub host_name: Option<String>,
    /// The device: `cpu`.
    pub device: String,
    /// Threads it computed with.
    pub threads: usize,
    /// The libraries it used.
    pub plugins: Vec<Library>,
    /// The properties of a GPU that decide its arithmetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// The file of compiled kernels, where there is one. Results do not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelFile>,
}

/// A file of compiled kernels, and what a process took from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFile {
    /// Its path.
    pub path: PathBuf,
    /// Kernels that it had when the device opened.
    pub read: u64,
    /// Kernels that it lacked and the process compiled.
    pub added: u64,
}

/// A GPU and the programs that compile for it: runs that agree in all of this compute the same numbers if each product
/// has the same kernel in both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// The device's own name.
    pub name: String,
    /// The target of kernels, such as `ptx_sm90`.
    pub target: String,
    /// Version of the CUDA driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of NVRTC, the compiler of CUDA kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvrtc: Option<String>,
    /// The tensor library's settings of fusion.
    pub fusion: Value,
    /// True if the tensor library chooses kernels by their measured times.
    pub autotune: bool,
    /// The kernels of the bf16 products until the record was written, by shape.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub products: BTreeMap<String, String>,
    /// True if forward and backward passes of steps were replayed from a recording.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed_passes: bool,
}

/// A plugin library.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Library {
    /// Absolute path.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Kind, name and version of each plugin in it.
    pub provides: Vec<String>,
    /// Version of the plugin interface it was built against.
    pub api_version: String,
    /// The compiler that built it.
    pub rustc: String,
    /// True if the plugins that the run uses passed the quick checks before; runs of earlier versions do not record
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_damaged_record_is_not_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(STATUS);
        let read = || RunRecord::read(folder.path());
        assert_eq!(read(), Ok(None));
        fs::write(&path, "").unwrap();
        assert_eq!(read(), Ok(None));
        fs::write(&path, r#"{"status": "completed", "steps": 7}"#).unwrap();
        let expected = RunRecord { status: RunStatus::Completed, steps: 7, ..RunRecord::default() };
        assert_eq!(read(), Ok(Some(expected)));
        for text in [
            r#"{"status": "completed", "st"#,
            "{}",
            "[]",
            r#"{"status": "done"}"#,
            r#"{"status": "failed", "steps": -1}"#,
        ] {
            fs::write(&path, text).unwrap();
            let error = read().unwrap_err();
            assert!(error.message.starts_with("the status of the run cannot be read ("), "{text}: {error}");
            assert_eq!(error.place, Some(path.display().to_string()));
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read().is_err());
    }
}
