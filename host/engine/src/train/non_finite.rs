//! Consecutive steps whose loss or gradients are not finite: their origin, and the state before them.

use altgrad_base::diagnostic::Diagnostic;

use super::step_state::StepState;
use crate::{
    checkpoint::StateTensors,
    debug::provenance::{Origin, Provenance},
};

/// The hint for a run that ends with NaN.
const REMEDY: &str = "lower train.lr, or compare with an unquantized run; metrics up to here are kept";

/// Records consecutive steps that are not finite.
#[derive(Debug, Default)]
pub(super) struct NonFiniteTracker {
    /// The origin of non-finite values; `None` if the last step was finite.
    began: Option<Provenance>,
    /// The state before the first of them, until it is saved.
    before: Option<(StepState, StateTensors)>,
}

impl NonFiniteTracker {
    /// True if the last step was not finite.
    pub fn is_active(&self) -> bool {
        self.began.is_some()
    }

    /// Records the first step that is not finite, and the state before it, if anomalies are kept.
    pub fn begin(&mut self, began: Provenance, before: Option<(StepState, StateTensors)>) {
        *self = Self { began: Some(began), before };
    }

    /// Records a finite step.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes and returns the state before the first step that is not finite.
    pub fn take_state(&mut self) -> Option<(StepState, StateTensors)> {
        self.before.take()
    }

    /// The first non-finite tensor, and its step, if it was found.
    pub fn first(&self) -> Option<(u64, &Origin)> {
        let began = self.began.as_ref()?;
        Some((began.step, began.first()?))
    }

    /// The error of a run that was not finite for `patience` steps, the last of them `step`.
    pub fn lost(&self, step: u64, patience: u64) -> Diagnostic {
        let began = self.began.as_ref().map_or_else(String::new, |began| format!("; {began}"));
        let message = format!(
            "loss or gradients were NaN or infinite for {patience} steps, the last one step {step}{began}"
        );
        Diagnostic::not_finite(message).at(format!("step {step}")).hint(REMEDY)
    }

    /// The error of a run that ended after `steps` steps with a loss or weights that are not finite.
    pub fn ended(&self, steps: u64) -> Diagnostic {
        let began = self.began.as_ref().map_or_else(String::new, |began| format!("; {began}"));
        let message = format!("the run ended with NaN or infinity in its loss or weights{began}");
        Diagnostic::not_finite(message).at(format!("after {steps} steps")).hint(REMEDY)
    }
}
