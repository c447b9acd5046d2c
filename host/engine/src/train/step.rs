//! One training step in two functions, [`compute_gradients`] and [`apply_update`], and its record. Each phase is a span that
//! `bench` times.

use std::time::{Duration, Instant};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;
use burn::tensor::Tensor;

use super::{
    clip::{self, ClipLimits, GradNorm},
    curvature, observe,
    reading::Reading,
};
use crate::{
    metrics::{self, MetricRecord, MetricSetup, StepInputs, update_metrics::DueMetrics},
    setup::RunSetup,
    state::{Gradients, LossScaler, Shown, TrainState},
    trace::Trace,
};

/// Computes the gradients of step number `step`, and reads back the values that its update and its metrics need. A `trace`
/// receives the tensors of both passes.
///
/// # Errors
/// A plugin or the device failed.
pub fn compute_gradients(
    setup: &RunSetup,
    state: &mut TrainState,
    step: u64,
    trace: Option<&Trace>,
) -> Result<(Vec<Tensor<1>>, Reading), Diagnostic> {
    let started = Instant::now();
    let curvature = if trace.is_none() { curvature::measure(setup, state, step)? } else { None };
    // The passes of a trace are not observed again.
    let observed = if trace.is_none() { observe::observe(setup, state, step)? } else { Vec::new() };
    let measuring = started.elapsed();
    let first = setup.first_micro_batch(step);
    let due = DueMetrics::at(&setup.config.metrics, step);
    if due.kurtosis {
        state.quant.start_histograms(due.distributions);
    }
    let shown = Shown { trace, attention: due.attention };
    let mut gradients = setup.model.gradients(state, setup.micro_batches(step), first, shown)?;
    let shadow = || {
        let _span = tracing::debug_span!("shadow").entered();
        setup.model.shadow_gradients(state, setup.micro_batches(step), first)
    };
    let shadow = is_due(setup.config.shadow.every, step).then(shadow).transpose()?;
    let mut reading = tracing::debug_span!("reading")
        .in_scope(|| Reading::of(&mut state.quant, &mut gradients, shadow.as_deref()))?;
    reading.observed = observed;
    reading.curvature = curvature;
    reading.measuring = measuring;
    let Gradients { grads, .. } = gradients;
    Ok((grads, reading))
}

/// The factors of an update.
#[derive(Debug, Clone, Copy)]
pub struct AppliedUpdate {
    /// The gradients' norm before and after clipping; unknown if they overflowed because of the loss scale.
    pub norm: Option<GradNorm>,
    /// The learning rate.
    pub lr: f64,
    /// The factor of the loss before the backward pass.
    pub loss_scale: LossScaler,
    /// True if there was no update, because gradients overflowed under a dynamic loss scale.
    pub is_skipped: bool,
}

impl AppliedUpdate {
    /// The event of a skipped step.
    #[must_use]
    pub fn event(&self, step: u64) -> Option<Event> {
        let scale = self.loss_scale.state().filter(|_| self.is_skipped)?.scale;
        let text = format!("the gradients overflowed under a loss scale of {scale}: the update is skipped");
        Some(Event {
            value: Some(f64::from(scale)),
            ..Event::new(step, AlertLevel::INFO, "step_skipped", text)
        })
    }
}

/// True if a step's gradients overflowed, its loss did not, and a smaller loss scale may help: training continues normally.
#[must_use]
pub fn overflowed(state: &TrainState, reading: &Reading) -> bool {
    let may_halve = state.loss_scale.state().is_some_and(|dynamic| dynamic.scale > 1.0);
    may_halve && reading.loss.is_finite() && reading.gradients_overflowed(&state.quant)
}

/// Clips the gradients of step number `step` and updates the state with them, unless they overflowed under a dynamic loss scale.
///
/// # Errors
/// The optimizer plugin or the device failed.
pub fn apply_update(
    setup: &RunSetup,
    state: &mut TrainState,
    step: u64,
    mut grads: Vec<Tensor<1>>,
    reading: &Reading,
) -> Result<AppliedUpdate, Diagnostic> {
    let (limits, lr) = (ClipLimits::from(&setup.config.train), setup.schedule.lr(step));
    let loss_scale = state.loss_scale;
    let is_explained = overflowed(state, reading);
    let is_skipped = state.loss_scale.take_in(reading.gradients_overflowed(&state.quant));
    if is_skipped {
        let TrainState { params, meter, .. } = state;
        meter.skip(step, &params.layout, || params.read())?;
        // Formats with delayed scales record every pass.
        state.quant.record_amax(&reading.seen);
        state.quant.keep_grid_stats();
        let norm = (!is_explained).then(|| GradNorm::unclipped(&reading.moments));
        return Ok(AppliedUpdate { norm, lr, loss_scale, is_skipped });
    }
    let norm =
        tracing::debug_span!("clipping").in_scope(|| clip::clip(&mut grads, &reading.moments, limits))?;
    state.meter.begin(step, norm.factor);
    tracing::debug_span!("update").in_scope(|| state.update(grads, &reading.seen, lr))?;
    Ok(AppliedUpdate { norm: Some(norm), lr, loss_scale, is_skipped })
}

/// Records the metrics of a step that took `elapsed`.
pub fn record_metrics(
    record: &mut MetricRecord,
    setup: &RunSetup,
    state: &TrainState,
    (reading, update): (&Reading, &AppliedUpdate),
    elapsed: Duration,
) {
    let (config, layout) = (&setup.config, &state.params.layout);
    // The rounding of gradients that overflowed depends on the loss scale alone: it is not recorded.
    let is_recorded = |is_gradient: bool| update.norm.is_some() || !is_gradient;
    let sites = state.quant.sites().iter().map(|site| site.role.is_gradient());
    let seen = reading.seen.iter().zip(sites);
    let seen: Vec<_> = seen.map(|(seen, of_gradient)| seen.filter(|_| is_recorded(of_gradient))).collect();
    let inputs = StepInputs {
        setup: MetricSetup::new(layout, &state.quant, config.metrics, config.shadow.every > 0),
        training: metrics::training::Step {
            loss: reading.loss,
            grad_norm: update.norm.map(|norm| [norm.before, norm.after]),
            lr: update.lr,
            loss_scale: update
                .loss_scale
                .state()
                .map(|before| (before.scale, before.skipped_steps + u64::from(update.is_skipped))),
        },
        moments: &reading.moments,
        agreement: reading.agreement.as_deref().filter(|_| update.norm.is_some()),
        curvature: reading.curvature.as_ref(),
        seen: &seen,
        distributions: if update.norm.is_some() { &reading.distributions } else { &[] },
        observed: &reading.observed,
        attention: &reading.attention,
        updates: &state.meter,
        tokens: setup.tokens_per_step(),
        elapsed,
    };
    metrics::record_step(&inputs, record);
}

/// True if an action that happens every `every` steps, 0 for never, is due at this step.
pub(super) fn is_due(every: u64, step: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
