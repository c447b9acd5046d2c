//! Forward and backward passes: losses and gradients of micro-batches at any parameters.

mod mean_loss;
#[cfg(feature = "gpu")]
#[allow(unsafe_code)]
mod recorder;
#[cfg(feature = "gpu")]
pub mod recording_inputs;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Batch;
use burn::tensor::Tensor;

pub use self::mean_loss::{MeanLoss, mean_loss};
#[cfg(feature = "gpu")]
use self::recorder::PassInputs;
#[cfg(feature = "gpu")]
pub use self::recorder::Recorder;
#[cfg(feature = "gpu")]
use crate::quant::LayerId;
use crate::{
    device_faults,
    fused_ops::{self, attention::AttentionMonitor, in_pool},
    model::{Dropout, Forward, Gpt, ModelBatch, Params},
    quant::{CastObservers, PassStats, QuantPass, Quantizer},
    trace::{Phase, TensorPlace, Trace},
};

/// The model for training, with the inputs of passes besides the state.
#[derive(Debug)]
pub struct TrainModel {
    /// The model's shape and forward pass.
    pub gpt: Gpt,
    /// Probability of dropout in training.
    pub dropout: f32,
    /// Coefficient of z-loss; 0 is none.
    pub z_loss: f64,
    /// Seed of the dropout stream.
    pub seed: u64,
    /// Records and replays the passes of steps.
    #[cfg(feature = "gpu")]
    pub recorder: Recorder,
}

/// The results of some passes, on the device.
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The contribution of each micro-batch to the mean loss, nats per token: `[1]` each.
    pub losses: Vec<Tensor<1>>,
    /// In the layout's order, `[n]` each.
    pub grads: Vec<Tensor<1>>,
    /// The statistics of rounding, and the observations.
    pub rounding: PassStats,
    /// Measurements of attention, if it is measured.
    pub attention: Option<AttentionMonitor>,
}

/// The subscribers to a step's passes. They do not change the passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observers<'a> {
    /// Receives all tensors.
    pub trace: Option<&'a Trace>,
    /// True if attention is measured.
    pub attention: bool,
    /// The measurements of casts.
    pub casts: CastObservers<'a>,
}

impl TrainModel {
    /// A model without dropout and z-loss.
    #[must_use]
    pub fn new(gpt: Gpt) -> Self {
        Self {
            gpt,
            dropout: 0.0,
            z_loss: 0.0,
            seed: 0,
            #[cfg(feature = "gpu")]
            recorder: Recorder::default(),
        }
    }

    /// Loss and gradients of a step's micro-batches, averaged. `first_micro_batch` is the run-wide index of the first
    /// of them, `loss_scale` the factor of the loss before the backward pass, if it is not 1. Reads nothing back.
    ///
    /// # Errors
    /// A parameter has no gradient, or the device failed.
    pub fn gradients(
        &self,
        params: &Params,
        (quant, loss_scale): (&Quantizer, Option<f32>),
        batches: impl ExactSizeIterator<Item = Result<Batch, Diagnostic>> + Send,
        first_micro_batch: u64,
        observers: Observers<'_>,
    ) -> Result<Gradients, Diagnostic> {
        let device = params.values[0].device();
        // Operations that are still queued end here, so that a GPU fuses this step's alike in resumed and uninterrupted
        // runs.
        device.flush().map_err(|error| device_faults::failed("before the forward pass", error))?;
        #[cfg(feature = "gpu")]
        if self.recorder.is_on() {
            let batches = batches.collect::<Result<Vec<_>, _>>()?;
            let inputs =
                PassInputs { params, quant, loss_scale, batches: &batches, first_micro_batch, observers };
            return self.recorder.gradients(inputs, &|params, batches| {
                let batches = batches.into_iter().map(Ok);
                self.backward(params, (quant, loss_scale), batches, first_micro_batch, observers)
            });
        }
        in_pool(&device, || self.backward(params, (quant, loss_scale), batches, first_micro_batch, observers))
    }

    /// The gradients the same step would have without rounding: same parameters, batches and dropout. Changes no state.
    ///
    /// # Errors
    /// As [`Self::gradients`].
    pub fn shadow_gradients(
        &self,
        params: &Params,
        batches: impl ExactSizeIterator<Item = Result<Batch, Diagnostic>> + Send,
        first_micro_batch: u64,
    ) -> Result<Vec<Tensor<1>>, Diagnostic> {
        let (device, exact) = (params.values[0].device(), (&Quantizer::off(), None));
        let gradients = in_pool(&device, || {
            self.backward(params, exact, batches, first_micro_batch, Observers::default())
        });
        Ok(gradients?.grads)
    }

    /// Loss and gradients of some batches, averaged, at any parameters.
    ///
    /// # Errors
    /// As [`Self::gradients`].
    pub fn gradients_at(
        &self,
        params: &Params,
        quant: &Quantizer,
        batches: impl ExactSizeIterator<Item = Result<Batch, Diagnostic>> + Send,
    ) -> Result<Gradients, Diagnostic> {
        let device = params.values[0].device();
        in_pool(&device, || self.backward(params, (quant, None), batches, 0, Observers::default()))
    }

    /// Losses and mean gradients of some micro-batches, rounded by `quant`. Rounding, and a `trace` of all but the
    /// parameters' sums, have gradients in scaled units.
    fn backward<B: Into<ModelBatch>>(
        &self,
        params: &Params,
        (quant, loss_scale): (&Quantizer, Option<f32>),
        batches: impl ExactSizeIterator<Item = Result<B, Diagnostic>> + Send,
        first_micro_batch: u64,
        observers: Observers<'_>,
    ) -> Result<Gradients, Diagnostic> {
        let Observers { trace, attention, casts } = observers;
        let attention = attention.then(AttentionMonitor::default);
        let quant = QuantPass::observed(quant, casts);
        #[cfg(feature = "gpu")]
        if trace.is_none() && !fused_ops::is_available(&params.values[0].device()) {
            let weight = |layer: LayerId| {
                let shape = &params.layout.specs[layer].shape;
                (layer, params.values[layer].clone(), [shape[0], shape[1]])
            };
            quant.prepare_weights(params.layout.linear_weights().into_iter().map(weight));
        }
        let share = 1.0 / batches.len() as f32;
        let mut losses = Vec::with_capacity(batches.len());
        let mut sums: Vec<Tensor<1>> = Vec::new();
        for (index, batch) in batches.enumerate() {
            let batch = batch?.into();
            let dropout = Dropout::train(self.dropout, self.seed, (first_micro_batch, index as u32));
            let values = params.values.iter();
            let weights: Vec<Tensor<1>> =
                values.map(|value| Tensor::from_inner(value.clone()).require_grad()).collect();
            let pass = Forward {
                layout: &params.layout,
                weights: &weights,
                quant: &quant,
                micro_batch: index as u64,
                dropout,
                trace,
                attention: attention.as_ref(),
            };
            // Divided by the number of micro-batches before the backward pass, as nanoGPT does, so that sums are means.
            let gradient = share * loss_scale.unwrap_or(1.0);
            let objective = tracing::debug_span!("forward")
                .in_scope(|| self.gpt.objective(&pass, &batch, self.z_loss, gradient));
            let shared = objective.value.mul_scalar(share);
            let scaled = loss_scale.map_or(shared.clone(), |factor| shared.mul_scalar(factor));
            let mut tape = tracing::debug_span!("backward").in_scope(|| scaled.backward());
            quant.end_backward(&tape);
            if let Some(trace) = trace {
                trace.collect(&tape, index as u64);
            }
            let grads = weights.iter().zip(&params.layout.specs).enumerate().map(|(id, (weight, spec))| {
                let grad = weight.grad_remove(&mut tape);
                let grad = grad.ok_or_else(|| Diagnostic::run(format!("`{}` got no gradient", spec.name)))?;
                if !quant.rounds_weight_gradient(id) {
                    return Ok(grad);
                }
                let matrix = grad.reshape([spec.shape[0], spec.shape[1]]);
                Ok(quant.round_weight_gradient(id, matrix, index as u64).reshape([spec.len()]))
            });
            let grads = grads.collect::<Result<Vec<_>, Diagnostic>>()?;
            sums = if sums.is_empty() {
                grads
            } else {
                sums.into_iter().zip(grads).map(|(a, b)| a + b).collect()
            };
            losses.push(objective.loss.mul_scalar(share));
        }
        if let Some(factor) = loss_scale {
            sums = fused_ops::scale::all_scaled(sums, 1.0 / factor);
        }
        if let Some(trace) = trace {
            for (spec, grad) in params.layout.specs.iter().zip(&sums) {
                trace.add(TensorPlace::of_parameter(Phase::Backward, &spec.name, "gradient"), grad.clone());
            }
        }
        Ok(Gradients { losses, grads: sums, rounding: quant.finish()?, attention })
    }
}
