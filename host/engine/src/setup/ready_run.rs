//! A run that can start.

use altgrad_sinks::SinkSetup;

use super::run_setup::RunSetup;
use crate::{metrics::update_metrics::UpdateMetrics, state::TrainState};

/// A run, ready to start.
pub struct ReadyRun {
    /// The constant part.
    pub setup: RunSetup,
    /// The part that training changes.
    pub state: TrainState,
    /// The measurements of the optimizer's steps.
    pub update_metrics: UpdateMetrics,
    /// Sinks, not opened.
    pub sinks: Vec<SinkSetup>,
}

impl ReadyRun {
    /// The run in a few lines of text.
    #[must_use]
    pub fn summary(&self) -> String {
        let Self { setup, state, .. } = self;
        let corpus = setup.batches.corpus();
        format!(
            "{}: {} parameters, {}, optimizer {}, device {}\ndata: {}, {} training and {} validation tokens",
            setup.config.run.name,
            state.params.layout.elements(),
            state.quant.plan.summary(),
            setup.config.optimizer.name,
            setup.device.label,
            corpus.description,
            corpus.train.len(),
            corpus.val.len(),
        )
    }
}
