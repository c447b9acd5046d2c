//! Checks of values that the types of `state.toml` allow but no run can have. A checkpoint with such a value is
//! damaged, even if its checksums match, and none is written with one. Only losses of steps and evaluations may be NaN.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::state::{CheckpointState, SinkRecord};
use crate::quant::{AmaxHistory, SavedWeightStats};

/// Largest counter, 2^53. No run comes near it, so further counting never overflows, and f64, which other programs use,
/// represents all numbers up to it exactly.
const MOST: u64 = 1 << 53;

/// Refuses a state with values that no run can have.
///
/// # Errors
/// The field, and its fault, worded to follow the file's name in a sentence.
pub(super) fn check(state: &CheckpointState) -> Result<(), String> {
    let CheckpointState { step, cursors, totals, .. } = state;
    counters(state)?;
    if cursors.step != *step || cursors.micro_batch < *step {
        return Err(format!("contradicts itself: step {step}, cursors {cursors:?}"));
    }
    let seconds = [("totals.training_s", totals.training_s), ("totals.run_s", totals.run_s)];
    for (field, seconds) in seconds {
        if std::time::Duration::try_from_secs_f64(seconds).is_err() || seconds > MOST as f64 {
            return Err(format!("has `{field}` = {seconds}, which is no time"));
        }
    }
    state.alerts.check(*step, MOST).map_err(|(field, what)| format!("has `alerts.{field}` = {what}"))?;
    let loss_scale = state.loss_scale.map_or(Ok(()), |scale| scale.check(*step));
    loss_scale.map_err(|(field, what)| format!("has `loss_scale.{field}` = {what}"))?;
    state.quant.history.iter().try_for_each(history)?;
    state.quant.weights.iter().try_for_each(scales)?;
    state.sink.iter().try_for_each(sink)
}

/// Counters that are too large, or count more updates than were done.
fn counters(state: &CheckpointState) -> Result<(), String> {
    let step = state.step;
    let totals = [
        ("step", step),
        ("cursors.step", state.cursors.step),
        ("cursors.micro_batch", state.cursors.micro_batch),
        ("totals.tokens", state.totals.tokens),
        ("optimizer.updates", state.optimizer.updates),
    ];
    for (field, count) in totals {
        counter(field, count)?;
    }
    let updates = [("optimizer.updates", state.optimizer.updates)].into_iter();
    for (field, count) in
        updates.chain(state.meter.dead_steps.iter().map(|steps| ("meter.dead_steps", *steps)))
    {
        if count > step {
            return Err(format!("has `{field}` = {count} after {step} updates"));
        }
    }
    for switch in &state.schedule {
        if switch.step > step {
            return Err(format!("has `schedule.step` = {} after {step} updates", switch.step));
        }
    }
    for resume in &state.resume {
        counter("resume.step", resume.step)?;
        counter("resume.unix_s", resume.unix_s.unwrap_or_default())?;
    }
    Ok(())
}

fn counter(field: &str, count: u64) -> Result<(), String> {
    if count <= MOST { Ok(()) } else { Err(format!("has `{field}` = {count}, which no run counts up to")) }
}

/// Largest magnitudes are finite in f32, and not negative.
pub(super) fn history(AmaxHistory { layer, role, amax, kept }: &AmaxHistory) -> Result<(), String> {
    let wrong = amax.iter().chain([kept]).find(|amax| !(**amax >= 0.0 && (**amax as f32).is_finite()));
    let said =
        |amax: &f64| format!("has `quant.history.amax` = {amax} of {layer}, {role}, which is no magnitude");
    wrong.map_or(Ok(()), |amax| Err(said(amax)))
}

/// Scales and their inverses are finite and positive.
fn scales(SavedWeightStats { layer, scales, .. }: &SavedWeightStats) -> Result<(), String> {
    let mut scales = scales.iter().map(|bits| f32::from_bits(*bits));
    let wrong = scales.find(|scale| !(scale.is_finite() && *scale > 0.0));
    wrong.map_or(Ok(()), |scale| {
        Err(format!("has `quant.settled.scales` = {scale} of {layer}, which is no scale"))
    })
}

fn sink(SinkRecord { counts, state, missing }: &SinkRecord) -> Result<(), String> {
    let fields = [
        ("rows", counts.rows),
        ("missing_rows", counts.missing_rows),
        ("missing_events", counts.missing_events),
        ("missing_from_step", counts.missing_from_step.unwrap_or_default()),
    ];
    let name = &counts.name;
    for (field, count) in fields {
        counter(&format!("sink.{field}"), count).map_err(|what| format!("{what} (sink {name})"))?;
    }
    match (state, missing) {
        (Some(state), None) => decode(state).map(drop).map_err(|what| format!("{what} (sink {name})")),
        (None, Some(_)) => Ok(()),
        _ => Err(format!("has neither `sink.state` nor why it is `missing`, or both (sink {name})")),
    }
}

/// The bytes of a sink's state.
///
/// # Errors
/// As [`check`].
pub(super) fn decode(state: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(state).map_err(|error| format!("has a `sink.state` that is no base64: {error}"))
}
