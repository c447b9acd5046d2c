//! An estimate of a run's time before it begins, from a few of its steps or, if they are long, from a product of matrices.

use std::time::{Duration, Instant};

use altgrad_base::diagnostic::Diagnostic;

use super::{machine, steps::take_step};
use crate::setup::{ReadyRun, RunSetup};

/// Timed steps, in addition to the first, which is slower.
const STEPS: u64 = 4;
/// 10^9 multiplications and additions of the largest step that is taken: less than a second on two cores.
const TAKEN_GFLOP: f64 = 40.0;
/// Time of a step over that of its matrix products: between the measured ratios of `seed`, 1.05, and of `tiny50k`, 1.46
/// (docs/performance.md).
const OVER_PRODUCTS: f64 = 1.3;

/// A rough estimate of a run's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Time per step.
    pub step: Duration,
    /// Number of evaluations, including the last.
    pub evaluations: u64,
    /// Time per evaluation.
    pub evaluation: Duration,
}

impl Estimate {
    /// The whole run.
    #[must_use]
    pub fn total(&self, steps: u64) -> Duration {
        let times =
            |time: Duration, count: u64| time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        times(self.step, steps).saturating_add(times(self.evaluation, self.evaluations))
    }
}

/// Estimates the time of a run. Small steps are executed and change its state.
///
/// # Errors
/// A plugin or the device failed.
pub fn estimate(run: &mut ReadyRun) -> Result<Estimate, Diagnostic> {
    let gflop = machine::gflop(run);
    let step = if gflop <= TAKEN_GFLOP {
        least_step(run)?
    } else {
        let rate = machine::product_gflop_s(&run.setup.device.tensors)?;
        Duration::try_from_secs_f64(OVER_PRODUCTS * gflop / rate).unwrap_or(Duration::MAX)
    };
    let setup = &run.setup;
    let tokens = setup.evaluation_tokens() as f64 / setup.tokens_per_step() as f64;
    // The forward pass is a third of a step's products.
    let evaluation = Duration::try_from_secs_f64(step.as_secs_f64() * tokens / 3.0).unwrap_or(Duration::MAX);
    Ok(Estimate { step, evaluations: evaluations(setup), evaluation })
}

/// The least time of a few steps.
fn least_step(run: &mut ReadyRun) -> Result<Duration, Diagnostic> {
    let mut least = take_step(run, 0)?;
    let started = Instant::now();
    for number in 1..=STEPS {
        run.state.quant.begin_step(number);
        least = least.min(take_step(run, number)?);
        if started.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    Ok(least)
}

/// Number of evaluations of a run, including the last.
fn evaluations(setup: &RunSetup) -> u64 {
    let train = &setup.config.train;
    // Step 0 is evaluated too; an interval of 0 leaves the last one only.
    let on_the_way = match train.eval_interval {
        0 => 0,
        every => train.max_steps.div_ceil(every),
    };
    on_the_way + 1
}
