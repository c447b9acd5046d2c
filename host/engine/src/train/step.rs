//! One training step in two functions, [`compute_gradients`] and [`apply_update`], and what is recorded of it. Each phase is a
//! span that `bench` times.

use std::time::Duration;

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use super::{
    clip::{self, GradNorm},
    observe,
    reading::Reading,
};
use crate::{
    metrics::{self, MetricRecord, MetricSetup, StepInputs, update_metrics::DueMetrics},
    setup::RunSetup,
    state::{Gradients, TrainState},
    trace::Trace,
};

/// Computes the gradients of step number `step`, and reads back what its update and its metrics need. A `trace` is shown the
/// tensors of both passes.
///
/// # Errors
/// A plugin or the device failed.
pub fn compute_gradients(
    setup: &RunSetup,
    state: &mut TrainState,
    step: u64,
    trace: Option<&Trace>,
) -> Result<(Vec<Tensor<1>>, Reading), Diagnostic> {
    // The passes of a trace are looked at already.
    let observed = if trace.is_none() { observe::observe(setup, state, step)? } else { Vec::new() };
    let first = setup.first_micro_batch(step);
    if DueMetrics::at(&setup.config.metrics, step).distributions {
        state.quant.start_histograms();
    }
    let gradients = setup.model.gradients(state, setup.micro_batches(step), first, trace)?;
    let shadow = || {
        let _span = tracing::debug_span!("shadow").entered();
        setup.model.shadow_gradients(state, setup.micro_batches(step), first)
    };
    let shadow = is_due(setup.config.shadow.every, step).then(shadow).transpose()?;
    let mut reading = tracing::debug_span!("reading")
        .in_scope(|| Reading::of(&mut state.quant, &gradients, shadow.as_deref()))?;
    reading.observed = observed;
    let Gradients { grads, .. } = gradients;
    Ok((grads, reading))
}

/// What an update was made with.
#[derive(Debug, Clone, Copy)]
pub struct AppliedUpdate {
    /// The gradients' norm before and after clipping.
    pub norm: GradNorm,
    /// The learning rate.
    pub lr: f64,
}

/// Clips the gradients of step number `step` and updates the state with them.
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
    let limit = setup.config.train.grad_clip;
    let norm = tracing::debug_span!("clipping")
        .in_scope(|| clip::by_global_norm(&mut grads, &reading.moments, limit));
    let lr = setup.schedule.lr(step);
    state.meter.begin(step, norm.factor());
    tracing::debug_span!("update").in_scope(|| state.update(grads, &reading.seen, lr))?;
    Ok(AppliedUpdate { norm, lr })
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
    let inputs = StepInputs {
        setup: MetricSetup::new(layout, &state.quant, config.metrics, config.shadow.every > 0),
        loss: reading.loss,
        grad_norm: [update.norm.before, update.norm.after],
        lr: update.lr,
        moments: &reading.moments,
        agreement: reading.agreement.as_deref(),
        seen: &reading.seen,
        distributions: &reading.distributions,
        observed: &reading.observed,
        updates: &state.meter,
        tokens: setup.tokens_per_step(),
        elapsed,
    };
    metrics::record_step(&inputs, record);
}

/// Whether what happens every `every` steps, 0 for never, happens at this one.
pub(super) fn is_due(every: u64, step: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
