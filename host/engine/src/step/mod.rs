//! A training step in time order: [`compute_gradients`] has the forward and backward passes and the reading of their
//! results, [`apply_update`] clips the gradients and updates the parameters, [`record_metrics`] fills the step's
//! record.
//!
//! A step needs a setup and a state, and no run folder: the training loop, the comparison of two runs and the benchmark
//! take the same steps. Each phase is a span that `bench` and [`crate::profile`] time.

mod before;
pub mod cast_switches;
pub mod clip;
mod outputs;

use std::time::Instant;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;
use burn::tensor::Tensor;

use self::clip::{ClipLimits, GradNorm};
pub use self::outputs::read_outputs;
use crate::{
    metrics::{
        self, MetricRecord, MetricSetup, StepInputs, StepOutputs,
        speed::StepTime,
        update_metrics::{DueMetrics, UpdateMetrics},
    },
    passes::Observers,
    quant::CastObservers,
    setup::RunSetup,
    state::{LossScaler, TrainState},
    trace::Trace,
};

/// Computes the gradients of step number `step`, and reads back the values that its update and its metrics need. A
/// `trace` receives the tensors of both passes.
///
/// # Errors
/// A plugin or the device failed.
pub fn compute_gradients(
    setup: &RunSetup,
    state: &mut TrainState,
    step: u64,
    trace: Option<&Trace>,
) -> Result<(Vec<Tensor<1>>, StepOutputs), Diagnostic> {
    let started = Instant::now();
    // The passes of a trace are not measured again.
    let (curvature, observed) = match trace {
        Some(_) => (None, Vec::new()),
        None => (before::curvature(setup, state, step)?, before::observe(setup, state, step)?),
    };
    let measuring = started.elapsed();

    let first = setup.first_micro_batch(step);
    let due = DueMetrics::at(&setup.config.metrics, step);
    let histograms = if due.kurtosis { state.quant.collectors(due.distributions) } else { Vec::new() };
    let casts = CastObservers { histograms: &histograms, observed: None };
    let observers = Observers { trace, attention: due.attention, casts };
    let gradients = state.gradients(&setup.model, setup.micro_batches(step), first, observers)?;
    let shadow = is_due(setup.config.shadow.every, step).then(|| {
        let _span = tracing::debug_span!("shadow").entered();
        setup.model.shadow_gradients(&state.params, setup.micro_batches(step), first)
    });
    let shadow = shadow.transpose()?;

    let _span = tracing::debug_span!("reading").entered();
    let (grads, outputs) = read_outputs(&mut state.quant, gradients, &histograms, shadow.as_deref())?;
    Ok((grads, StepOutputs { curvature, observed, measuring, ..outputs }))
}

/// The factors of an update.
#[derive(Debug, Clone)]
pub struct AppliedUpdate {
    /// The gradients' norm before and after clipping; unknown if they overflowed because of the loss scale.
    pub norm: Option<GradNorm>,
    /// The learning rate.
    pub lr: f64,
    /// The factor of the loss before the backward pass.
    pub loss_scale: LossScaler,
    /// True if there was no update, because gradients overflowed under a dynamic loss scale.
    pub is_skipped: bool,
    /// The numbers of the optimizer's own after it.
    pub numbers: Vec<f64>,
}

impl AppliedUpdate {
    /// The event of a skipped step with this loss.
    #[must_use]
    pub fn event(&self, step: u64, loss: f64) -> Option<Event> {
        let scale = self.loss_scale.state().filter(|_| self.is_skipped)?.scale;
        let why =
            if loss.is_finite() { "the gradients overflowed".into() } else { format!("the loss is {loss}") };
        let text = format!("{why} under a loss scale of {scale}: the update is skipped");
        Some(Event {
            value: Some(f64::from(scale)),
            ..Event::new(step, AlertLevel::INFO, "step_skipped", text)
        })
    }
}

/// True if a step's gradients overflowed, its loss did not, and a smaller loss scale may help: training continues
/// normally.
#[must_use]
pub fn overflowed(state: &TrainState, outputs: &StepOutputs) -> bool {
    let may_halve = state.loss_scale.state().is_some_and(|dynamic| dynamic.scale > 1.0);
    may_halve && outputs.loss.is_finite() && outputs.gradients_overflowed(&state.quant.plan)
}

/// Clips the gradients of step number `step` and updates the state with them, unless they overflowed under a dynamic
/// loss scale. `update_metrics` measures the updates.
///
/// # Errors
/// The optimizer plugin or the device failed.
pub fn apply_update(
    setup: &RunSetup,
    (state, update_metrics): (&mut TrainState, &mut UpdateMetrics),
    step: u64,
    mut grads: Vec<Tensor<1>>,
    outputs: &StepOutputs,
) -> Result<AppliedUpdate, Diagnostic> {
    let (limits, lr) = (ClipLimits::from(&setup.config.train), setup.schedule.lr(step));
    let loss_scale = state.loss_scale;
    let is_explained = overflowed(state, outputs);
    let is_skipped = state.loss_scale.update(outputs.gradients_overflowed(&state.quant.plan));
    if is_skipped {
        update_metrics.skip(step, &state.params.layout, || state.params.read())?;
        // Formats with delayed scales record every pass.
        state.quant.record_amax(&outputs.rounding);
        let norm = (!is_explained).then(|| GradNorm::unclipped(&outputs.moments));
        return Ok(AppliedUpdate { norm, lr, loss_scale, is_skipped, numbers: state.optimizer.numbers()? });
    }
    let norm =
        tracing::debug_span!("clipping").in_scope(|| clip::clip(&mut grads, &outputs.moments, limits))?;
    update_metrics.begin(step, norm.factor);
    for evaluation in 1..state.optimizer.evaluations() {
        let _span = tracing::debug_span!("evaluation").entered();
        state.move_to_evaluate(&grads, lr, evaluation)?;
        let first = setup.first_micro_batch(step);
        let again = state.gradients(&setup.model, setup.micro_batches(step), first, Observers::default())?;
        let (moved, outputs) = read_outputs(&mut state.quant, again, &[], None)?;
        grads = moved;
        clip::clip(&mut grads, &outputs.moments, limits)?;
    }
    tracing::debug_span!("update").in_scope(|| state.update(grads, &outputs.rounding, lr, update_metrics))?;
    let numbers = state.optimizer.numbers()?;
    Ok(AppliedUpdate { norm: Some(norm), lr, loss_scale, is_skipped, numbers })
}

/// Records the metrics of a step that took `time`.
pub fn record_metrics(
    record: &mut MetricRecord,
    setup: &RunSetup,
    (state, update_metrics): (&TrainState, &UpdateMetrics),
    (outputs, update): (&StepOutputs, &AppliedUpdate),
    time: StepTime,
) {
    let _span = tracing::debug_span!("recording").entered();
    let (config, layout) = (&setup.config, &state.params.layout);
    let training = metrics::training::TrainingScalars {
        loss: outputs.loss,
        grad_norm: update.norm.map(|norm| [norm.before, norm.after]),
        lr: update.lr,
        loss_scale: update
            .loss_scale
            .state()
            .map(|before| (before.scale, before.skipped_steps + u64::from(update.is_skipped))),
    };
    let of_run = MetricSetup::new(layout, &state.quant.plan, config.metrics, config.shadow.every > 0);
    let inputs = StepInputs {
        setup: of_run.with_observed(setup.observed.as_ref()).with_optimizer(state.optimizer.number_names()),
        outputs,
        optimizer: &update.numbers,
        training,
        updates: update_metrics,
        tokens: setup.tokens_per_step(),
        time,
        memory: setup.device.memory(),
    };
    metrics::record_step(&inputs, record);
}

/// True if an action that happens every `every` steps, 0 for never, is due at this step.
pub(crate) fn is_due(every: u64, step: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::state::DynamicLossScale;

    #[test]
    fn the_event_of_a_skipped_step_names_a_loss_that_is_not_finite() {
        let loss_scale = LossScaler::Dynamic(DynamicLossScale::default());
        let update = AppliedUpdate { norm: None, lr: 1.0, loss_scale, is_skipped: true, numbers: Vec::new() };
        let text = |loss| update.event(3, loss).unwrap().text;
        assert!(text(2.5).starts_with("the gradients overflowed under a loss scale of "));
        assert!(text(f64::NAN).starts_with("the loss is NaN under a loss scale of "));
        let kept = AppliedUpdate { is_skipped: false, ..update };
        assert!(kept.event(3, 2.5).is_none());
    }
}
