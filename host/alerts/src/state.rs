//! The state of alerts between records, as checkpoints store it; a state that no run can have is refused.

use std::{collections::BTreeMap, time::Duration};

use altgrad_metrics::AlertKind;
use serde::{Deserialize, Serialize};

use super::{evaluation::Evaluation, loss_window::LossWindow};

/// The state between records, which checkpoints store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AlertState {
    pub(super) kinds: BTreeMap<AlertKind, KindState>,
    /// The last evaluation's loss, if it was finite.
    pub(super) previous: Option<f64>,
    pub(super) best: Option<Evaluation>,
    pub(super) diverged_at: Option<u64>,
    /// Steps in a row with a NaN or infinite loss or gradient, up to now.
    pub(super) nan_steps: u64,
    /// The training loss.
    #[serde(default)]
    pub(super) training_loss: LossWindow,
    /// The first values of metrics whose growth counts, by name.
    #[serde(default)]
    pub(super) first: BTreeMap<String, f64>,
    /// The largest learning rate so far.
    #[serde(default)]
    pub(super) largest_lr: f64,
}

/// The state of a kind between records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct KindState {
    /// Measurements in a row, up to now, for which its condition held.
    pub streak: u64,
    /// When it fired last, since the run's start.
    pub fired_at: Option<Duration>,
    /// Times it fired.
    pub fired: u64,
}

impl AlertState {
    /// Refuses a state that no run of `steps` updates can have; counters and seconds are at most `most`.
    ///
    /// # Errors
    /// The field, and its value with the reason.
    pub fn check(&self, steps: u64, most: u64) -> Result<(), (String, String)> {
        let too_many = |field: String, count: u64, most: u64| {
            if count <= most { Ok(()) } else { Err((field, format!("{count}, which no run counts up to"))) }
        };
        for (kind, state) in &self.kinds {
            let field = |field: &str| format!("kinds.{}.{field}", kind.name());
            too_many(field("streak"), state.streak, most)?;
            too_many(field("fired"), state.fired, most)?;
            too_many(field("fired_at"), state.fired_at.unwrap_or_default().as_secs(), most)?;
        }
        too_many("nan_steps".into(), self.nan_steps, most)?;
        too_many("diverged_at".into(), self.diverged_at.unwrap_or_default(), steps)?;
        if let Some(previous) = self.previous.filter(|loss| !loss.is_finite()) {
            return Err(("previous".into(), format!("{previous}, which no finite loss is")));
        }
        self.training_loss.check(steps)?;
        if let Some((name, value)) = self.first.iter().find(|(_, value)| value.is_nan()) {
            return Err((format!("first.{name}"), format!("{value}, which no metric starts with")));
        }
        if !(self.largest_lr >= 0.0 && self.largest_lr.is_finite()) {
            return Err(("largest_lr".into(), format!("{}, which is no learning rate", self.largest_lr)));
        }
        let Some(best) = self.best else { return Ok(()) };
        too_many("best.step".into(), best.step, steps)?;
        if best.loss.is_nan() {
            Err(("best.loss".into(), "NaN, which is never the best".into()))
        } else {
            Ok(())
        }
    }
}
