//! One training step, in time order: gradients, shadow, one reading, clipping, update; and what is recorded of it. Each
//! part is a span that `bench` times.

use std::time::Instant;

use super::{
    clip,
    provenance::{self, Provenance},
    reading::Reading,
};
use crate::{
    checkpoint::Tensors,
    diagnostic::Diagnostic,
    metrics::{self, MetricRecord, MetricSetup, StepInputs, update_metrics::DueMetrics},
    plan::Plan,
    trace::Trace,
};

/// Steps in a row whose loss or gradients are not finite.
#[derive(Debug)]
pub struct NotFinite {
    /// Where it began.
    pub origin: Provenance,
    /// The state before the first of them, as long as nobody has taken it, if anomalies are kept.
    pub before: Option<Tensors>,
}

/// Does step number `step` and records its metrics; returns the loss of its batch before the update, nats per token,
/// and the time it took. `origin` is where the last step stopped being finite; at the first such step it is found, later
/// ones keep it, and a finite step clears it. A `trace` is shown the tensors of both passes.
///
/// # Errors
/// A plugin or the device failed.
pub fn step(
    plan: &mut Plan,
    step: u64,
    record: &mut MetricRecord,
    origin: &mut Option<NotFinite>,
    trace: Option<&Trace>,
) -> Result<(f64, std::time::Duration), Diagnostic> {
    let started = Instant::now();
    let config = &plan.config;
    let accum = config.train.grad_accum;
    let first = step * accum as u64;
    let batches = || (0..accum).map(|index| plan.batches.train(first + index as u64));
    let (shadowed, measured) = (due(config.shadow.every, step), DueMetrics::at(&config.metrics, step));

    if measured.distributions {
        plan.trainer.quant.watch();
    }
    let mut gradients = plan.trainer.gradients(batches(), first, trace)?;
    let shadow = || {
        let _span = tracing::debug_span!("shadow").entered();
        plan.trainer.shadow_gradients(batches(), first)
    };
    let shadow = shadowed.then(shadow).transpose()?;
    let reading = tracing::debug_span!("reading")
        .in_scope(|| Reading::of(&plan.trainer.quant, &gradients, shadow.as_deref()))?;
    let watched = plan.trainer.quant.take_watched();
    if provenance::is_finite(&reading) {
        *origin = None;
    } else if origin.is_none() {
        let origin_of = provenance::find(&plan.trainer, step, batches(), first)?;
        let before = config.checkpoint.on_anomaly.then(|| Tensors::of(plan)).transpose()?;
        *origin = Some(NotFinite { origin: origin_of, before });
    }
    let norm = tracing::debug_span!("clipping")
        .in_scope(|| clip::by_global_norm(&mut gradients.grads, &reading.moments, config.train.grad_clip));
    let lr = plan.schedule.lr(step);
    plan.meter.begin(step, norm.factor());
    tracing::debug_span!("update")
        .in_scope(|| plan.trainer.update(gradients.grads, &reading.seen, lr, &mut plan.meter))?;
    let elapsed = started.elapsed();

    let (layout, quant) = (&plan.trainer.params.layout, &plan.trainer.quant);
    let inputs = StepInputs {
        setup: MetricSetup::new(layout, quant, config.metrics, config.shadow.every > 0),
        loss: reading.loss,
        grad_norm: [norm.before, norm.after],
        lr,
        moments: &reading.moments,
        agreement: reading.agreement.as_deref(),
        seen: &reading.seen,
        distributions: &watched,
        updates: &plan.meter,
        tokens: plan.tokens_per_step(),
        elapsed,
    };
    metrics::record_step(&inputs, record);
    Ok((reading.loss, elapsed))
}

/// Whether what happens every `every` steps, 0 for never, happens at this one.
pub(super) fn due(every: u64, step: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
