//! The additional passes for `[observe]`, before the passes of the training.

use altgrad_base::diagnostic::Diagnostic;

use super::step::is_due;
use crate::{
    quant::observe::SeenSite,
    setup::RunSetup,
    state::{Shown, TrainState},
};

/// The observation of step number `step`, by site; empty on a step that does not measure.
///
/// # Errors
/// A format or the device failed.
pub(super) fn observe(
    setup: &RunSetup,
    state: &mut TrainState,
    step: u64,
) -> Result<Vec<Option<SeenSite>>, Diagnostic> {
    if !is_due(setup.config.observe.every, step) || !state.quant.start_observation() {
        return Ok(Vec::new());
    }
    let _span = tracing::debug_span!("observation").entered();
    let first = setup.first_micro_batch(step);
    let passes = setup.model.gradients(state, setup.micro_batches(step), first, Shown::default());
    let seen = state.quant.take_observation();
    passes?;
    seen
}
