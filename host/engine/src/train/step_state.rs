//! A run between two steps, except tensors: the content of a checkpoint of a past step.

use std::time::Duration;

use altgrad_alerts::AlertState;

use super::status::RunReport;
use crate::{checkpoint::state::RunTotals, quant::Quantizer, state::TrainState};

/// A run between two steps, except tensors. Making it takes microseconds.
#[derive(Debug, Clone)]
pub(super) struct StepState {
    /// Updates done.
    pub step: u64,
    pub carried: Quantizer,
    pub alerts: AlertState,
    pub totals: RunTotals,
}

impl StepState {
    /// As it is now, `elapsed` after the run's start.
    pub fn new(state: &TrainState, report: &RunReport, elapsed: Duration) -> Self {
        Self {
            step: report.steps,
            carried: state.quant.clone(),
            alerts: report.alerts.state().clone(),
            totals: report.totals(elapsed),
        }
    }
}
