//! The setup of casts that change: the sites of every phase are made before the first step, and refused if they do not
//! match.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{CastPhase, RunConfig, Source};
use altgrad_loader::Registry;
use serde_json::{Value, json};

use super::{described_casts::linear_layers, inputs::place, rounding};
use crate::{
    device::ComputeDevice, model::Layout, optimizer::OptimizerState, quant::QuantPlan, state::WaitingCasts,
};

/// The rounding of each phase, in the order of the entries. `first` is the rounding of the first phase.
///
/// # Errors
/// A phase is invalid, or changes the storage of weights, with the entry's position in the run file.
pub fn phases(
    config: &RunConfig,
    source: &Source,
    registry: &Registry,
    device: &ComputeDevice,
    (layout, first): (&Layout, &QuantPlan),
) -> Result<Vec<QuantPlan>, Diagnostic> {
    let phases = config.quant.schedule.iter().enumerate().map(|(index, phase)| {
        let entry = format!("quant.schedule.{index}");
        let quant = rounding::quant(&config_of(config, phase), registry, device, layout)
            .map_err(|(key, error)| placed(error, source, &entry, &key))?;
        match quant.stored_otherwise(first) {
            None => Ok(quant),
            Some(layer) => {
                let name = &layout.specs[layer].name;
                let message = format!(
                    "`{entry}` changes how `{name}` is stored, which cannot change during a run: without master weights it lies on the grid of its format"
                );
                let error = Diagnostic::config(message).at(source.locate(&entry));
                Err(error.hint("train with master_weights = \"fp32\", or let the entry keep the casts of weights"))
            }
        }
    });
    phases.collect()
}

/// The phases with the optimizer's rules in each.
///
/// # Errors
/// The optimizer cannot update a parameter in a phase, with the entry's position in the run file.
pub(super) fn waiting(
    phases: Vec<QuantPlan>,
    optimizer: &OptimizerState,
    layout: &Layout,
    source: &Source,
) -> Result<Vec<WaitingCasts>, Diagnostic> {
    let waiting = phases.into_iter().enumerate().map(|(index, quant)| {
        let rules = optimizer.rules_under(&quant, layout);
        let rules = rules.map_err(|error| place(error, source, &format!("quant.schedule.{index}")))?;
        Ok(WaitingCasts { plan: Arc::new(quant), rules })
    });
    waiting.collect()
}

/// The number formats of all computations from each entry on, for `run.json`.
pub(super) fn described(
    phases: &[QuantPlan],
    config: &RunConfig,
    layout: &Layout,
    device: &ComputeDevice,
) -> Vec<Value> {
    let entries = config.quant.schedule.iter().zip(phases);
    let said = |(phase, quant): (&CastPhase, &QuantPlan)| {
        json!({
            "trigger": phase.trigger.to_string(),
            "precision": quant.precision().name(),
            "linear_layers": linear_layers(quant, layout, device),
        })
    };
    entries.map(said).collect()
}

/// The run file in a phase.
#[must_use]
pub fn config_of(config: &RunConfig, phase: &CastPhase) -> RunConfig {
    let mut config = config.clone();
    config.quant = phase.quant.clone();
    config.train.precision = phase.precision;
    config
}

/// Adds the position of the entry: of the key, if the entry has it.
fn placed(error: Diagnostic, source: &Source, entry: &str, key: &str) -> Diagnostic {
    let own = key.strip_prefix("quant.").map(|below| format!("{entry}.{below}"));
    let own = own.filter(|own| source.is_written(own));
    let error = Diagnostic { message: format!("in `{entry}`: {}", error.message), ..error };
    place(error, source, own.as_deref().unwrap_or(entry))
}
