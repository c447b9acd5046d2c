//! A sink before it is opened, the facts that it then receives, and its possible faults.

use std::time::Duration;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::SinkPlugin;
use altgrad_metrics::MetricId;

use crate::{filter::FilterChoice, states::SinkResume};

/// The facts of a run that a sink receives when it is opened.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run's name.
    pub name: String,
    /// The run folder, absolute.
    pub folder: String,
    /// The resolved run file.
    pub config_toml: String,
    /// Metrics that a row may contain.
    pub metrics: Vec<MetricId>,
    /// The step at which a resumed run continues; `None` for a new run.
    pub resume: Option<SinkResume>,
}

/// A sink that is not open yet, and its limits.
pub struct SinkSetup {
    /// The sink.
    pub plugin: SinkPlugin,
    /// The largest number of waiting rows and events.
    pub queue: usize,
    /// The rows and metrics that it receives.
    pub filter: FilterChoice,
    /// The deadline for each of opening, the state for a checkpoint, and finishing.
    pub deadline: Duration,
}

/// A fault of a sink.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkFault {
    /// It failed or missed a deadline, and is closed.
    Closed(Diagnostic),
    /// Rows of an earlier part of the run are missing.
    Gap(Diagnostic),
    /// It cannot keep up: some rows are dropped from here on.
    Full(Diagnostic),
}
