//! The number formats of a run: the table of `run.json` that lists exact, rounded and f32 numbers.
//!
//! Made from the state's sites, not from the run file, so that it describes the actual computation.

use std::collections::BTreeMap;

use altgrad_config::{MasterWeightsChoice, PrecisionChoice, RunConfig};
use serde_json::{Value, json};

use super::described_casts::{TYPE, linear_layers};
use crate::{device::ComputeDevice, state::TrainState};

/// The table. Linear layers that are alike share an entry.
pub(super) fn table(config: &RunConfig, device: &ComputeDevice, state: &TrainState) -> Value {
    Table { config, device, state }.to_json()
}

/// The sources of the table.
struct Table<'a> {
    config: &'a RunConfig,
    device: &'a ComputeDevice,
    state: &'a TrainState,
}

impl Table<'_> {
    fn to_json(&self) -> Value {
        let shadow = (self.config.shadow.every > 0).then_some(TYPE);
        json!({
            "device": self.device.label,
            "linear_layers": linear_layers(&self.state.quant.plan, &self.state.params.layout, self.device),
            "matrix_products": self.matrix_products(),
            "embeddings": TYPE,
            "layer_norms": TYPE,
            "attention_scores": TYPE,
            "softmax": TYPE,
            "loss": TYPE,
            "parameter_gradients": TYPE,
            "master_weights": match self.state.quant.plan.master_weights() {
                MasterWeightsChoice::Fp32 => TYPE,
                MasterWeightsChoice::None => "none: weights with a format lie on its grid, the others are f32",
            },
            "optimizer": { "states": self.states(), "updates": TYPE, "parameters_updated_by": self.updates(), "rules": self.rules() },
            "shadow_gradients": shadow,
        })
    }

    /// The number of parameters of each kind of update.
    fn updates(&self) -> Value {
        let mut counts = BTreeMap::new();
        for id in 0..self.state.params.layout.specs.len() {
            *counts.entry(self.state.optimizer.updated_by(id)).or_insert(0) += 1;
        }
        json!(counts)
    }

    /// The storage of each state, and its bytes.
    fn states(&self) -> Value {
        let stored = self.state.optimizer.storage().into_iter();
        stored.map(|(name, (stored, bytes))| (name, json!({ "stored_as": stored, "bytes": bytes }))).collect()
    }

    /// The parameters that each rule of the optimizer updates, by rule.
    fn rules(&self) -> Value {
        let mut rules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, spec) in self.state.params.layout.specs.iter().enumerate() {
            let rule = match self.state.optimizer.rule(id) {
                "" => &self.state.optimizer.identity().name,
                rule => rule,
            };
            rules.entry(rule).or_default().push(&spec.name);
        }
        json!(rules)
    }

    /// Operands and sums of the matrix products, the linear layers' and the attention's.
    fn matrix_products(&self) -> Value {
        let quant = &self.state.quant.plan;
        let unrounded = match quant.precision() {
            PrecisionChoice::Fp32 => TYPE.to_string(),
            PrecisionChoice::Bf16 => format!("rounded to bf16; attention multiplies them as {TYPE}"),
        };
        let exact = if self.device.multiplies_bf16_fast() {
            format!("bf16 where both are exact in it up to one scale each, else {TYPE}")
        } else {
            TYPE.to_string()
        };
        json!({
            "operands_without_format": unrounded,
            "linear_layers_multiply_as": exact,
            "accumulator": match quant.sum() {
                None => TYPE.to_string(),
                Some(sum) => format!("{sum:?} where both operands have formats, else {TYPE}"),
            },
        })
    }
}
