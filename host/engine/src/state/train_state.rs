//! The mutable state of training: a step changes no other state, and a checkpoint holds all of it.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use super::{cast_schedule::CastSchedule, loss_scale::LossScaler};
use crate::{
    metrics::update_metrics::UpdateMetrics,
    model::Params,
    optimizer::{self, OptimizerState},
    quant::{QuantContext, QuantStats},
};

/// A run between two steps.
pub struct TrainState {
    /// The parameters.
    pub params: Params,
    /// The quantizer of linear layers, with its stored scales.
    pub quant: QuantContext,
    /// The optimizer and its states.
    pub optimizer: OptimizerState,
    /// Measures parameters, and keeps state between steps.
    pub meter: UpdateMetrics,
    /// The casts of later phases.
    pub schedule: CastSchedule,
    /// The factor of the loss before the backward pass.
    pub loss_scale: LossScaler,
    /// True if an update failed half-way: some parameters are updated, others are not.
    pub half_updated: bool,
}

impl TrainState {
    /// The state before the first step. Without master weights, weights are rounded to their formats' grids.
    #[must_use]
    pub fn new(params: Params, quant: QuantContext, optimizer: OptimizerState, meter: UpdateMetrics) -> Self {
        let Params { layout, values } = params;
        let values = values.into_iter().zip(&layout.specs).enumerate();
        let values = values
            .map(|(id, (value, spec))| optimizer::round_to_grid(&quant, id, &spec.shape, value, 0))
            .collect();
        let params = Params { layout, values };
        let (schedule, loss_scale) = (CastSchedule::default(), LossScaler::OFF);
        Self { params, quant, optimizer, meter, schedule, loss_scale, half_updated: false }
    }

    /// One optimizer step with gradients from passes whose rounding has the statistics `seen`, which scales of later
    /// steps use.
    ///
    /// # Errors
    /// The optimizer plugin failed.
    pub fn update(
        &mut self,
        grads: Vec<Tensor<1>>,
        seen: &[Option<QuantStats>],
        lr: f64,
    ) -> Result<(), Diagnostic> {
        self.half_updated = true;
        self.optimizer.step(&mut self.params, grads, (&self.quant, seen), lr, &mut self.meter)?;
        self.half_updated = false;
        Ok(())
    }

    /// The parameters, in the layout's order. Reads the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        self.params.read()
    }
}
