//! The passes for `[curvature]`, before those of the training.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Split;

use super::step::is_due;
use crate::{
    curvature::{self, Curvature, CurvatureSpec, hessian::RELATIVE_STEP},
    setup::RunSetup,
    state::TrainState,
};

/// The curvature at the weights before step number `step`, on a step that measures it. The random directions are the same in all
/// steps. Does not change the training state.
///
/// # Errors
/// A plugin or the device failed.
pub(super) fn measure(
    setup: &RunSetup,
    state: &TrainState,
    step: u64,
) -> Result<Option<Curvature>, Diagnostic> {
    let section = setup.config.curvature;
    if !is_due(section.every, step) {
        return Ok(None);
    }
    let _span = tracing::debug_span!("curvature").entered();
    let spec = CurvatureSpec {
        draws: section.draws,
        iterations: section.iterations,
        relative_step: RELATIVE_STEP,
        seed: 0,
    };
    let batches: Vec<_> = setup.batches.sample(Split::Train, section.batches).collect();
    let found = curvature::measure_at(&setup.model.gpt, (&state.params, &state.quant), &batches, &spec)?;
    Ok(Some(found))
}
