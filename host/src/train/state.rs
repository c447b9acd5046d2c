//! What a run keeps in mind between steps so that a checkpoint can be made of a moment that is over.

use std::time::Duration;

use super::{provenance::Origin, status::Report, step::NotFinite};
use crate::{
    alerts::AlertState,
    checkpoint::{Tensors, state::Totals},
    diagnostic::Diagnostic,
    plan::Plan,
    quant::QuantState,
};

/// A run between two steps, tensors aside. Costs microseconds.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// Updates done.
    pub step: u64,
    pub carried: QuantState,
    pub alerts: AlertState,
    pub totals: Totals,
}

impl Before {
    /// As it is now, `elapsed` after the run's start.
    pub fn new(plan: &Plan, report: &Report, elapsed: Duration) -> Self {
        Self {
            step: report.steps,
            carried: plan.trainer.quant.state(),
            alerts: report.alerts.state().clone(),
            totals: report.totals(elapsed),
        }
    }
}

/// Steps in a row that are not finite.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    /// Where they began; `None` if the last step was finite.
    pub now: Option<NotFinite>,
    /// The state before them, until it is taken.
    before: Option<(Before, Tensors)>,
}

impl Wrong {
    /// After each step: remembers the state before the first that is not finite, and forgets it with the first that is.
    pub fn note(&mut self, before: &Before) {
        match &mut self.now {
            None => self.before = None,
            Some(wrong) => {
                if let Some(tensors) = wrong.before.take() {
                    self.before = Some((before.clone(), tensors));
                }
            }
        }
    }

    /// The state before the first step that is not finite; once.
    pub fn take(&mut self) -> Option<(Before, Tensors)> {
        self.before.take()
    }

    /// What is not finite first, and its step, if it was found.
    pub fn first(&self) -> Option<(u64, &Origin)> {
        let origin = &self.now.as_ref()?.origin;
        Some((origin.step, origin.first()?))
    }

    /// A run without a number for too long.
    pub fn lost(&self, step: u64, patience: u64) -> Diagnostic {
        let origin = self.now.as_ref().map_or_else(String::new, |wrong| format!("; {}", wrong.origin));
        let message = format!(
            "loss or gradients were NaN or infinite for {patience} steps, the last one step {step}{origin}"
        );
        Diagnostic::run(message)
            .at(format!("step {step}"))
            .hint("lower train.lr, or compare with an unquantized run; metrics up to here are kept")
    }
}
