//! The content of a checkpoint, taken between two steps.
//!
//! On the CPU its tensors are handles, and nothing is copied. On a GPU the thread that trains has read all of them: a
//! read by another thread would end the operations that the tensor library fuses, at a time that differs between equal
//! runs, and with them the order of sums.

use altgrad_alerts::AlertState;
use altgrad_base::diagnostic::Diagnostic;
use altgrad_run_folder::record::{CastSwitch, Resume};

use super::{layout::CheckpointKind, state::RunTotals};
use crate::{
    metrics::update_metrics::UpdateMetrics,
    model::weights,
    quant::SavedQuantState,
    state::{DynamicLossScale, TrainState},
    tensor_file::{Entry, TensorElements},
};

/// The tensors of a run between two updates, and the counters that belong to them.
#[derive(Debug, Clone)]
pub struct StateTensors {
    pub(super) model: Vec<Entry>,
    pub(super) optimizer: Vec<Entry>,
    pub(super) meter: Vec<Entry>,
    pub(super) updates: u64,
    pub(super) dead_steps: Vec<u64>,
    /// The seed of the initial weights that are not among the tensors.
    pub(super) initial_seed: Option<u64>,
    pub(super) loss_scale: Option<DynamicLossScale>,
    pub(super) schedule: Vec<CastSwitch>,
}

/// The complete content of a checkpoint at the time of the request.
#[derive(Debug)]
pub struct Snapshot {
    /// The reason for the checkpoint.
    pub kind: CheckpointKind,
    /// Updates done.
    pub step: u64,
    /// Held-out loss of these parameters, if they were evaluated.
    pub val_loss: Option<f64>,
    /// The tensors.
    pub tensors: StateTensors,
    /// The state of rounding.
    pub carried: SavedQuantState,
    /// The state of alerts.
    pub alerts: AlertState,
    /// Sums over the completed steps.
    pub totals: RunTotals,
    /// Earlier continuations.
    pub resumes: Vec<Resume>,
}

impl StateTensors {
    /// The tensors and counters of a run.
    ///
    /// # Errors
    /// What a GPU keeps cannot be read.
    pub fn of(state: &TrainState, meter: &UpdateMetrics) -> Result<Self, Diagnostic> {
        let (layout, optimizer) = (&state.params.layout, &state.optimizer);
        let specs = || layout.specs.iter().enumerate();
        let model = specs().map(|(id, spec)| {
            let values = TensorElements::of(state.params.values[id].clone())?;
            Ok(Entry { name: weights::key(&spec.name), shape: spec.shape.clone(), values })
        });
        let model: Result<Vec<Entry>, Diagnostic> = model.collect();
        let mut states = Vec::new();
        for (id, spec) in specs() {
            states.extend(optimizer.states(id)?.into_iter().map(|buffer| Entry {
                name: state_key(&spec.name, &buffer.name),
                shape: buffer.shape.unwrap_or_else(|| spec.shape.clone()),
                values: buffer.values,
            }));
        }
        states.extend(optimizer.shared_states()?.into_iter().map(|(instance, buffer)| Entry {
            name: shared_state_key(instance, &buffer.name),
            shape: buffer.shape.unwrap_or_default(),
            values: buffer.values,
        }));
        Ok(Self {
            model: model?,
            optimizer: states,
            meter: meter.save(layout)?,
            updates: optimizer.updates(),
            dead_steps: meter.dead_steps(),
            initial_seed: meter.initial_seed(),
            loss_scale: state.loss_scale.state(),
            schedule: state.schedule.switches().to_vec(),
        })
    }
}

/// Key of an optimizer's buffer: `h.0.attn.c_attn.weight/exp_avg`.
pub(super) fn state_key(param: &str, state: &str) -> String {
    format!("{param}/{state}")
}

/// Key of a buffer of a whole instance: `optimizer.0/d`.
pub(super) fn shared_state_key(instance: usize, state: &str) -> String {
    format!("optimizer.{instance}/{state}")
}
