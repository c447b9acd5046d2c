//! A sink before it is opened, what it is told then, and what can go wrong in it.

use std::time::Duration;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::SinkPlugin;
use altgrad_metrics::MetricId;

use crate::{filter::FilterChoice, states::SinkResume};

/// What a sink is told when it is opened.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run's name.
    pub name: String,
    /// The run folder, absolute.
    pub folder: String,
    /// The resolved run file.
    pub config_toml: String,
    /// Metrics a row may carry.
    pub metrics: Vec<MetricId>,
    /// The step at which a resumed run continues; `None` for a new run.
    pub resume: Option<SinkResume>,
}

/// A sink that is not open yet, and what the host allows it.
pub struct SinkSetup {
    /// The sink.
    pub plugin: SinkPlugin,
    /// Rows and events it may lag behind.
    pub queue: usize,
    /// Which rows and metrics it gets.
    pub filter: FilterChoice,
    /// How long it may take to open, to say its state for a checkpoint, and to finish.
    pub deadline: Duration,
}

/// What went wrong in a sink.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkFault {
    /// It failed or missed a deadline, and is closed.
    Closed(Diagnostic),
    /// Rows of an earlier part of the run are missing.
    Gap(Diagnostic),
    /// It cannot keep up: some rows are dropped from here on.
    Full(Diagnostic),
}
