//! An estimate of a run's time before it begins, from a few of its steps or, if they are long, from a product of
//! matrices.

use std::time::{Duration, Instant};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Split;

use super::step::take_step;
use crate::{
    device_rates,
    passes::mean_loss,
    setup::{ReadyRun, RunSetup},
};

/// Timed steps, in addition to the first, which is slower.
const STEPS: u64 = 4;
/// 10^9 multiplications and additions of the largest step that is taken: less than a second on two cores.
const TAKEN_GFLOP: f64 = 40.0;
/// Time of a step over that of its matrix products: between the measured ratios of `seed`, 1.05, and of `tiny50k`, 1.46
/// (docs/performance.md).
const OVER_PRODUCTS: f64 = 1.3;

/// A rough estimate of a run's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeEstimate {
    /// Time per step.
    pub step: Duration,
    /// Number of evaluations, including the one after the last step.
    pub evaluations: u64,
    /// Time per evaluation.
    pub evaluation: Duration,
    /// Time of one more at the end, of the whole split, if the others use a sample and the run has it.
    pub whole_split: Option<Duration>,
}

impl TimeEstimate {
    /// The whole run.
    #[must_use]
    pub fn total(&self, steps: u64) -> Duration {
        let evaluations = times(self.evaluation, self.evaluations as f64);
        let evaluations = evaluations.saturating_add(self.whole_split.unwrap_or_default());
        times(self.step, steps as f64).saturating_add(evaluations)
    }
}

/// A multiple of a time; the longest one, if it cannot be expressed.
fn times(time: Duration, count: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * count).unwrap_or(Duration::MAX)
}

/// Estimates the time of a run. Small steps are executed and change its state.
///
/// # Errors
/// A plugin or the device failed.
pub fn estimate(run: &mut ReadyRun) -> Result<TimeEstimate, Diagnostic> {
    let gflop = device_rates::step_gflop(&run.setup, &run.state.params.layout);
    let (step, batch) = if gflop <= TAKEN_GFLOP {
        (least_step(run)?, least_evaluation(run)?)
    } else {
        let rate = device_rates::small_product_gflop_s(&run.setup.device.tensors)?;
        let step = times(Duration::from_secs(1), OVER_PRODUCTS * gflop / rate);
        // The forward pass is a third of a step's products.
        (step, times(step, 1.0 / (3 * run.setup.config.train.grad_accum) as f64))
    };
    let setup = &run.setup;
    let (train, data) = (&setup.config.train, &setup.config.data);
    let evaluation = |kind| {
        let tokens = setup.evaluation_tokens(kind) as f64;
        times(batch, tokens / (data.batch_size * data.block_size) as f64)
    };
    let (usual, last) =
        (setup.evaluation(), setup.final_evaluation(train.max_steps.saturating_mul(setup.tokens_per_step())));
    Ok(TimeEstimate {
        step,
        evaluations: evaluations(setup),
        evaluation: evaluation(usual),
        whole_split: (last != usual).then(|| evaluation(last)),
    })
}

/// The least time of a few steps.
fn least_step(run: &mut ReadyRun) -> Result<Duration, Diagnostic> {
    let mut least = take_step(run, 0)?;
    let started = Instant::now();
    for number in 1..=STEPS {
        run.state.quant.state.step = number;
        least = least.min(take_step(run, number)?);
        if started.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    Ok(least)
}

/// The least time of a few evaluations of one batch. Steps may have measurements that evaluations do not.
fn least_evaluation(run: &ReadyRun) -> Result<Duration, Diagnostic> {
    let ReadyRun { setup, state, .. } = run;
    let mut least = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        let batch = setup.batches.sample(Split::Validation, 1);
        mean_loss(&setup.model.gpt, &state.params, &state.quant, batch)?;
        least = least.min(started.elapsed());
    }
    Ok(least)
}

/// Number of evaluations of a run, including the one after the last step.
fn evaluations(setup: &RunSetup) -> u64 {
    let train = &setup.config.train;
    // Step 0 is evaluated too; an interval of 0 leaves the last one only.
    let on_the_way = match train.eval_interval {
        0 => 0,
        every => train.max_steps.div_ceil(every),
    };
    on_the_way + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_long_run_count() {
        let seconds = Duration::from_secs;
        let estimate = TimeEstimate {
            step: seconds(1),
            evaluations: 3,
            evaluation: seconds(10),
            whole_split: Some(seconds(100)),
        };
        assert_eq!(estimate.total(1 << 40), seconds((1 << 40) + 130));
        assert_eq!(TimeEstimate { step: seconds(u64::MAX), ..estimate }.total(2), Duration::MAX);
    }
}
