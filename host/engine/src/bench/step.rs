//! One step of a benchmark.

use std::time::{Duration, Instant};

use altgrad_base::diagnostic::Diagnostic;

use crate::{
    device_rates,
    metrics::{MetricRecord, speed::StepTime},
    setup::ReadyRun,
    step::{apply_update, compute_gradients, record_metrics},
};

/// Takes a step and records its metrics; returns the time of both, up to the end of the device's work.
pub(super) fn take_step(run: &mut ReadyRun, number: u64) -> Result<Duration, Diagnostic> {
    let ReadyRun { setup, state, update_metrics, .. } = run;
    let mut record = MetricRecord::new(number);
    let started = Instant::now();
    let (grads, outputs) = compute_gradients(setup, state, number, None)?;
    let update = apply_update(setup, (state, update_metrics), number, grads, &outputs)?;
    let elapsed = started.elapsed();
    record_metrics(
        &mut record,
        setup,
        (state, update_metrics),
        (&outputs, &update),
        StepTime { elapsed, utilization: None, sheet_utilization: None },
    );
    device_rates::wait(&setup.device.tensors)?;
    Ok(started.elapsed())
}
