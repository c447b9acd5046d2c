//! Which weights are quantized, and to what.

use std::{collections::BTreeSet, sync::Arc};

use altgrad_plugin_api::{FormatSpec, QuantParams, RandomKey, Rounding};
use burn::tensor::Tensor;

use super::op::{self, Quantizer, Seen};
use crate::model::layout::ParamId;

/// How linear layers read their weights.
#[derive(Debug, Default)]
pub struct WeightQuant {
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    quantizer: Arc<Quantizer>,
    rounding: Rounding,
    weights: BTreeSet<ParamId>,
    seed: u64,
    step: u64,
}

impl WeightQuant {
    /// Weights as they are.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// The given weights rounded to the quantizer's grid.
    #[must_use]
    pub fn new(quantizer: Arc<Quantizer>, rounding: Rounding, weights: BTreeSet<ParamId>, seed: u64) -> Self {
        Self { active: Some(Active { quantizer, rounding, weights, seed, step: 0 }) }
    }

    /// Says which step the next calls belong to: stochastic rounding draws anew each step.
    pub fn begin_step(&mut self, step: u64) {
        if let Some(active) = &mut self.active {
            active.step = step;
        }
    }

    /// The weight as a layer uses it, same shape; the gradient goes straight through.
    #[must_use]
    pub fn weight(&self, id: ParamId, value: Tensor<1>) -> Tensor<1> {
        match &self.active {
            Some(active) if active.weights.contains(&id) => {
                let key = RandomKey { seed: active.seed, step: active.step, tensor: id as u64, offset: 0 };
                let params = QuantParams { rounding: active.rounding, key, ..QuantParams::IDENTITY };
                op::fake_quant(value, &active.quantizer, params)
            }
            _ => value,
        }
    }

    /// The grid of a weight and its scale, if it is quantized.
    #[must_use]
    pub fn grid(&self, id: ParamId) -> Option<(&FormatSpec, f32)> {
        let active = self.active.as_ref().filter(|active| active.weights.contains(&id))?;
        Some((&active.quantizer.format().spec, 1.0))
    }

    /// What the quantizer saw since the last call; `None` without one.
    #[must_use]
    pub fn take_seen(&self) -> Option<Seen> {
        self.active.as_ref().map(|active| active.quantizer.take_seen())
    }
}
