//! The state with which a run evaluated its final weights. `weights.safetensors` has it in its metadata, so that a copy
//! of the file is evaluated alike; for the weights of a checkpoint it is a part of `state.toml`.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_run_folder::record::CastSwitch;
use serde::{Deserialize, Serialize};

use super::{sanity, state::CheckpointState};
use crate::quant::AmaxHistory;

/// The state of weights, except tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsState {
    /// Updates done: the address of the random bits of rounding.
    pub step: u64,
    /// Fingerprint of all token ids that the weights were trained and evaluated on.
    pub data_fingerprint: String,
    /// Changes of the casts so far; the last one is in force.
    #[serde(default)]
    pub schedule: Vec<CastSwitch>,
    /// Largest magnitudes of past steps, from which scales follow.
    #[serde(default)]
    pub history: Vec<AmaxHistory>,
}

impl WeightsState {
    /// Reads the text of [`Self::to_toml`].
    ///
    /// # Errors
    /// The text is damaged, or has values that no run can have.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let damaged = |why: &str| {
            Diagnostic::config(format!("the state beside the weights cannot be read ({why})"))
                .hint("name a checkpoint of the run; `--full-precision` needs no state")
        };
        let state: Self = toml::from_str(text).map_err(|error| damaged(error.message()))?;
        state.history.iter().try_for_each(sanity::history).map_err(|what| damaged(&format!("it {what}")))?;
        Ok(state)
    }

    /// The state as TOML, which stores f64 exactly.
    ///
    /// # Errors
    /// A number has no representation in TOML.
    pub fn to_toml(&self) -> Result<String, Diagnostic> {
        toml::to_string(self)
            .map_err(|error| Diagnostic::run(format!("the state of the weights cannot be written ({error})")))
    }
}

impl From<CheckpointState> for WeightsState {
    fn from(state: CheckpointState) -> Self {
        Self {
            step: state.step,
            data_fingerprint: state.data.fingerprint,
            schedule: state.schedule,
            history: state.quant.history,
        }
    }
}
