//! The measurements with passes of their own, before the passes of the training: `[curvature]` and `[observe]`.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Split;

use super::is_due;
use crate::{
    curvature::{self, Curvature, CurvatureSpec, hessian::RELATIVE_STEP},
    passes::Observers,
    quant::{CastObservers, observe::SiteObservation},
    setup::RunSetup,
    state::TrainState,
};

/// The curvature at the weights before step number `step`, on a step that measures it. The random directions are the
/// same in all steps. Does not change the training state.
///
/// # Errors
/// A plugin or the device failed.
pub(super) fn curvature(
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
    let batches = setup.batches.sample(Split::Train, section.batches).collect::<Result<Vec<_>, _>>()?;
    let found = curvature::measure(&setup.model.gpt, (&state.params, &state.quant), &batches, &spec)?;
    Ok(Some(found))
}

/// The observation of step number `step`, by site; empty on a step that does not measure.
///
/// # Errors
/// A format or the device failed.
pub(super) fn observe(
    setup: &RunSetup,
    state: &TrainState,
    step: u64,
) -> Result<Vec<Option<SiteObservation>>, Diagnostic> {
    let Some(observed) = setup.observed.as_ref().filter(|_| is_due(setup.config.observe.every, step)) else {
        return Ok(Vec::new());
    };
    let _span = tracing::debug_span!("observation").entered();
    let first = setup.first_micro_batch(step);
    let casts = CastObservers { observed: Some(observed), ..CastObservers::default() };
    let observers = Observers { casts, ..Observers::default() };
    let passes = state.gradients(&setup.model, setup.micro_batches(step), first, observers)?;
    Ok(passes.rounding.observed.unwrap_or_default())
}
