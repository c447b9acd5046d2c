//! How long a run takes, from a few steps of it.

use std::time::{Duration, Instant};

use altgrad_base::diagnostic::Diagnostic;

use super::steps::take_step;
use crate::{
    setup::{ReadyRun, RunSetup},
    state::mean_loss,
    train::step::is_due,
};

/// Steps that are timed at most, beside the first, which is slower.
const STEPS: u64 = 8;
/// Time after which no further step begins.
const ENOUGH: Duration = Duration::from_secs(1);

/// The least time of a few steps. They change the run's state.
///
/// # Errors
/// A plugin or the device failed.
pub fn time_a_step(run: &mut ReadyRun) -> Result<Duration, Diagnostic> {
    let started = Instant::now();
    let mut least = take_step(run, 0)?;
    for number in 1..=STEPS {
        if number > 1 && started.elapsed() > ENOUGH {
            break;
        }
        run.state.quant.begin_step(number);
        least = least.min(take_step(run, number)?);
    }
    Ok(least)
}

/// The time of one of the evaluations on the way.
///
/// # Errors
/// A plugin or the device failed.
pub fn time_an_evaluation(run: &ReadyRun) -> Result<Duration, Diagnostic> {
    let (setup, state) = (&run.setup, &run.state);
    let started = Instant::now();
    mean_loss(&setup.model.gpt, &state.params, &state.quant, setup.held_out(setup.evaluation()))?;
    Ok(started.elapsed())
}

/// Evaluations of a run, the last included.
#[must_use]
pub fn evaluations(setup: &RunSetup) -> u64 {
    let train = &setup.config.train;
    (0..train.max_steps).filter(|step| is_due(train.eval_interval, *step)).count() as u64 + 1
}
