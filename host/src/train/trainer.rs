//! The trainer: parameters and what a step does to them. It computes; the loop decides.

use burn::tensor::Tensor;

use super::update::{self, OptimizerRun};
use crate::{
    data::Batch,
    diagnostic::Diagnostic,
    metrics::update_metrics::UpdateMetrics,
    model::{Dropout, Forward, Gpt, Params, params},
    quant::{Quant, Seen},
    trace::{Phase, Place, Trace},
};

/// Everything a step reads and writes.
pub struct Trainer {
    /// The model's shape and forward pass.
    pub gpt: Gpt,
    /// The parameters.
    pub params: Params,
    /// What linear layers round.
    pub quant: Quant,
    /// The optimizer.
    pub optimizer: OptimizerRun,
    /// Probability of dropout in training.
    pub dropout: f32,
    /// Seed of the dropout stream.
    pub seed: u64,
    /// Whether an update failed half-way: some parameters are updated, others are not.
    pub torn: bool,
}

/// A step's loss and gradients, on the device.
#[derive(Debug)]
pub struct Gradients {
    /// What each micro-batch adds to the mean loss, nats per token: `[1]` each.
    pub losses: Vec<Tensor<1>>,
    /// In the layout's order, `[n]` each.
    pub grads: Vec<Tensor<1>>,
}

impl Trainer {
    /// Loss and gradients of a step's micro-batches, averaged. `first_micro_batch` is the run-wide index of the first of
    /// them. Reads nothing back; what rounding saw waits in the quantizer. A `trace` is shown all tensors and changes
    /// none.
    ///
    /// # Errors
    /// A parameter got no gradient.
    pub fn gradients(
        &self,
        batches: impl ExactSizeIterator<Item = Batch>,
        first_micro_batch: u64,
        trace: Option<&Trace>,
    ) -> Result<Gradients, Diagnostic> {
        self.backward(&self.quant, batches, first_micro_batch, trace)
    }

    /// The gradients the same step would have without rounding: same parameters, batches and dropout. Touches nothing.
    ///
    /// # Errors
    /// As [`Self::gradients`].
    pub fn shadow_gradients(
        &self,
        batches: impl ExactSizeIterator<Item = Batch>,
        first_micro_batch: u64,
    ) -> Result<Vec<Tensor<1>>, Diagnostic> {
        Ok(self.backward(&Quant::off(), batches, first_micro_batch, None)?.grads)
    }

    /// Losses and mean gradients of some micro-batches, rounding as `quant` says.
    fn backward(
        &self,
        quant: &Quant,
        batches: impl ExactSizeIterator<Item = Batch>,
        first_micro_batch: u64,
        trace: Option<&Trace>,
    ) -> Result<Gradients, Diagnostic> {
        let share = 1.0 / batches.len() as f32;
        let mut losses = Vec::with_capacity(batches.len());
        let mut sums: Vec<Tensor<1>> = Vec::new();
        for (index, batch) in batches.enumerate() {
            let dropout = Dropout::train(self.dropout, self.seed, first_micro_batch + index as u64);
            let weights: Vec<Tensor<1>> = self
                .params
                .values
                .iter()
                .map(|value| Tensor::from_inner(value.clone()).require_grad())
                .collect();
            let pass = Forward {
                layout: &self.params.layout,
                weights: &weights,
                quant,
                micro_batch: index as u64,
                dropout,
                trace,
            };
            // Scaled before the backward pass, as nanoGPT does, so that sums need no scaling.
            let scaled =
                tracing::debug_span!("forward").in_scope(|| self.gpt.loss(&pass, &batch).mul_scalar(share));
            let tape = tracing::debug_span!("backward").in_scope(|| scaled.backward());
            quant.collect(&tape);
            if let Some(trace) = trace {
                trace.collect(&tape, index as u64);
            }
            let grads = weights.iter().zip(&self.params.layout.specs).map(|(weight, spec)| {
                weight.grad(&tape).ok_or_else(|| Diagnostic::run(format!("`{}` got no gradient", spec.name)))
            });
            let grads = grads.collect::<Result<Vec<_>, _>>()?;
            sums = if sums.is_empty() {
                grads
            } else {
                sums.into_iter().zip(grads).map(|(a, b)| a + b).collect()
            };
            losses.push(scaled.inner());
        }
        if let Some(trace) = trace {
            for (spec, grad) in self.params.layout.specs.iter().zip(&sums) {
                trace.add(Place::of_parameter(Phase::Backward, &spec.name, "gradient"), grad.clone());
            }
        }
        Ok(Gradients { losses, grads: sums })
    }

    /// Mean loss over held-out batches, with the weights as training sees them. Touches no training state.
    ///
    /// # Errors
    /// A plugin or the device failed.
    pub fn loss(&self, batches: impl Iterator<Item = Batch>) -> Result<f64, Diagnostic> {
        let (mut sum, mut count) = (0.0, 0u32);
        for batch in batches {
            let pass = Forward {
                layout: &self.params.layout,
                weights: &self.params.values,
                quant: &self.quant,
                micro_batch: 0,
                dropout: Dropout::off(),
                trace: None,
            };
            sum += f64::from(params::read_f32(self.gpt.loss(&pass, &batch))?[0]);
            count += 1;
        }
        // Evaluation leaves no trace in scales; a fault of a format is one all the same.
        self.quant.read()?;
        Ok(sum / f64::from(count))
    }

    /// One optimizer step with gradients from a pass that saw `seen`, which scales of later steps remember; `meter` sees
    /// what it does to each parameter.
    ///
    /// # Errors
    /// The optimizer plugin failed.
    pub fn update(
        &mut self,
        grads: Vec<Tensor<1>>,
        seen: &[Option<Seen>],
        lr: f64,
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        self.torn = true;
        self.optimizer.step(&mut self.params, grads, (&self.quant, seen), lr, meter)?;
        self.torn = false;
        Ok(())
    }

    /// Brings the initial weights to where training keeps them: without master weights, onto their formats' grids.
    pub fn settle(&mut self) {
        let Params { layout, values } = &mut self.params;
        for (id, (value, spec)) in values.iter_mut().zip(&layout.specs).enumerate() {
            *value = update::settle(&self.quant, id, &spec.shape, value.clone(), 0);
        }
    }

    /// The parameters, in the layout's order. Reads the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        self.params.values.iter().map(|value| params::read_f32(value.clone())).collect()
    }
}
