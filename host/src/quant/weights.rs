//! Which weights are quantized, and to what.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use altgrad_plugin_api::{FormatSpec, RandomKey, Rounding};
use burn::tensor::Tensor;

use super::{DeviceFormat, RoundingCall, Seen, Unread, op, seen};
use crate::{diagnostic::Diagnostic, model::layout::ParamId};

/// How linear layers read their weights.
#[derive(Debug, Default)]
pub struct WeightQuant {
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    format: Arc<DeviceFormat>,
    rounding: Rounding,
    weights: BTreeSet<ParamId>,
    seed: u64,
    step: u64,
    /// What the calls since the last reading left on the device.
    unread: Mutex<Vec<Unread>>,
}

impl WeightQuant {
    /// Weights as they are.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// The given weights rounded to the format's grid.
    #[must_use]
    pub fn new(format: Arc<DeviceFormat>, rounding: Rounding, weights: BTreeSet<ParamId>, seed: u64) -> Self {
        Self { active: Some(Active { format, rounding, weights, seed, step: 0, unread: Mutex::default() }) }
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
        let Some(active) = self.active.as_ref().filter(|active| active.weights.contains(&id)) else {
            return value;
        };
        let key = RandomKey { seed: active.seed, step: active.step, tensor: id as u64, offset: 0 };
        let scales = op::scales(1.0, &value.device());
        let call = RoundingCall { rounding: active.rounding, key };
        let rounded = op::fake_quant(value, scales, &active.format, call);
        active.unread.lock().unwrap_or_else(PoisonError::into_inner).push(rounded.seen);
        rounded.values
    }

    /// The grid of a weight and its scale, if it is quantized.
    #[must_use]
    pub fn grid(&self, id: ParamId) -> Option<(&FormatSpec, f32)> {
        let active = self.active.as_ref().filter(|active| active.weights.contains(&id))?;
        Some((&active.format.plugin().spec, 1.0))
    }

    /// What the calls since the last reading saw; `None` if nothing is quantized. Reads the device once.
    ///
    /// # Errors
    /// A call failed, or the device did.
    pub fn read_seen(&self) -> Result<Option<Seen>, Diagnostic> {
        let Some(active) = &self.active else { return Ok(None) };
        let unread = std::mem::take(&mut *active.unread.lock().unwrap_or_else(PoisonError::into_inner));
        let mut total = Seen::default();
        for seen in seen::read(unread)? {
            total.merge(&seen);
        }
        Ok(Some(total))
    }
}
