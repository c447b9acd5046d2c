//! The mutable state of training: a step changes no other state, and a checkpoint holds all of it.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Batch;
use altgrad_run_folder::record::CastSwitch;
use burn::tensor::Tensor;

use super::{
    cast_schedule::{CastSchedule, WaitingCasts},
    loss_scale::LossScaler,
};
use crate::{
    model::Params,
    optimizer::{self, OptimizerState, UpdateSubscriber},
    passes::{Gradients, Observers, TrainModel},
    quant::{QuantStats, Quantizer},
};

/// A run between two steps.
pub struct TrainState {
    /// The parameters.
    pub params: Params,
    /// The quantizer of linear layers, with its stored scales.
    pub quant: Quantizer,
    /// The optimizer and its states.
    pub optimizer: OptimizerState,
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
    pub fn new(params: Params, mut quant: Quantizer, optimizer: OptimizerState) -> Self {
        let Params { layout, values } = params;
        let values = values.into_iter().zip(&layout.specs).enumerate();
        let values = values
            .map(|(id, (value, spec))| optimizer::round_to_grid(&mut quant, id, &spec.shape, value, 0))
            .collect();
        let params = Params { layout, values };
        let (schedule, loss_scale) = (CastSchedule::default(), LossScaler::OFF);
        Self { params, quant, optimizer, schedule, loss_scale, half_updated: false }
    }

    /// One optimizer step with gradients from passes whose rounding has these statistics, which scales of later
    /// steps use.
    ///
    /// # Errors
    /// The optimizer plugin failed.
    pub fn update(
        &mut self,
        grads: Vec<Tensor<1>>,
        stats: &[Option<QuantStats>],
        lr: f64,
        subscriber: &mut dyn UpdateSubscriber,
    ) -> Result<(), Diagnostic> {
        self.half_updated = true;
        self.optimizer.step(&mut self.params, grads, (&mut self.quant, stats), lr, subscriber)?;
        self.half_updated = false;
        Ok(())
    }

    /// Moves the parameters to where the next gradient of the update is evaluated, after that evaluation.
    ///
    /// # Errors
    /// The optimizer plugin failed.
    pub fn move_to_evaluate(
        &mut self,
        grads: &[Tensor<1>],
        lr: f64,
        evaluation: u32,
    ) -> Result<(), Diagnostic> {
        self.half_updated = true;
        self.optimizer.move_to_evaluate(&mut self.params, grads, &self.quant, lr, evaluation)
    }

    /// Loss and gradients of a step's micro-batches under the state's casts and loss scale.
    ///
    /// # Errors
    /// As [`TrainModel::gradients`].
    pub fn gradients(
        &self,
        model: &TrainModel,
        batches: impl ExactSizeIterator<Item = Result<Batch, Diagnostic>> + Send,
        first_micro_batch: u64,
        observers: Observers<'_>,
    ) -> Result<Gradients, Diagnostic> {
        let casts = (&self.quant, self.loss_scale.factor());
        model.gradients(&self.params, casts, batches, first_micro_batch, observers)
    }

    /// Applies the casts of a waiting entry. Parameters and states of the optimizer stay as they are.
    pub fn switch_casts(&mut self, switch: CastSwitch) {
        let Some(WaitingCasts { plan, rules }) = self.schedule.take(switch) else { return };
        self.quant.switch_to(plan);
        self.optimizer.set_rules(rules);
    }

    /// The parameters, in the layout's order. Reads the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        self.params.read()
    }
}
