//! Metrics to Weights & Biases: every row on disk first, and on the server as soon as there is one.
//!
//! `log` writes a line to a file of the run folder and returns; a thread of the sink's own uploads. Without a network,
//! with a wrong key or a refusing server the run starts and continues, and the remaining rows are sent later by
//! `altgrad-host wandb-upload RUN`. Each step reaches the server once, even if processes are killed or requests lost.
//!
//! Writing: `journal` (content), `spool` (file), `index` (reading it back). Uploading: `uploader` (schedule), `connect`
//! and `reconcile` (position), `protocol` and `client` (requests). `offline` exports the official client's file.

use std::io::{self, Write as _};

use altgrad_plugin_api::{
    Alert, Config, Descriptor, ErrorKind, Histogram, Metric, PluginError, RunInfo, RunOutcome, Sink,
};

mod alerts;
mod client;
mod connect;
mod environment;
mod index;
mod journal;
mod json;
mod key;
mod lock;
mod naming;
mod offline;
mod options;
mod pace;
mod protocol;
mod reconcile;
mod records;
mod remote;
mod row;
mod run;
mod shared;
mod spool;
mod summary;
#[cfg(test)]
mod tests;
mod thread;
mod uploader;

use environment::Environment;
use key::Key;
use options::{Mode, Options};
use pace::Pace;
use run::OpenRun;

/// Prints a message for the user to standard error, if that can be written.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("wandb: {text}\n").as_bytes());
}

/// The sink: its options, and the run it is open for.
#[derive(Debug)]
pub struct WandbSink {
    options: Options,
    environment: Environment,
    pace: Pace,
    run: Option<OpenRun>,
    /// True if nothing is to be written.
    idle: bool,
}

impl WandbSink {
    fn with(config: &Config, environment: Environment) -> Result<Self, PluginError> {
        let options = Options::resolve(config, &environment)?;
        let pace = Pace::usual(options.interval);
        let idle = options.mode == Mode::Disabled;
        Ok(Self { options, environment, pace, run: None, idle })
    }

    /// The open run; None if nothing is to be written.
    fn run(&mut self) -> Result<Option<&mut OpenRun>, PluginError> {
        if self.run.is_none() && !self.idle {
            return Err(PluginError::new(ErrorKind::OTHER, "the wandb sink is not open"));
        }
        Ok(self.run.as_mut())
    }
}

impl Sink for WandbSink {
    const DESCRIPTOR: Descriptor = Descriptor::sink(
        "wandb",
        env!("CARGO_PKG_VERSION"),
        "Weights & Biases: spooled on disk, uploaded while the run goes on, or offline",
    )
    .options(&options::SPECS);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let sink = Self::with(config, Environment::of_process())?;
        if sink.options.mode == Mode::Online
            && let Err(why) = Key::find(&sink.options.base_url, &sink.environment)
        {
            say(&format!(
                "nothing is uploaded to {}: {why}. A run keeps its rows on disk for `altgrad-host wandb-upload`",
                sink.options.base_url
            ));
        }
        Ok(sink)
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        if !self.idle {
            self.run = OpenRun::open(&self.options, &self.environment, self.pace, run)?;
            self.idle = self.run.is_none();
        }
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        self.run()?.map_or(Ok(()), |run| run.journal.row(step, metrics))
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        if let Some(run) = self.run()? {
            run.journal.histogram(step, histogram);
        }
        Ok(())
    }

    fn alert(&mut self, alert: &Alert<'_>) -> Result<(), PluginError> {
        if let Some(run) = self.run()? {
            run.alert(alert);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        self.run()?.map_or(Ok(Vec::new()), OpenRun::state)
    }

    fn summary(&mut self, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        if let Some(run) = self.run()? {
            run.journal.summary(metrics);
        }
        Ok(())
    }

    fn finish(&mut self, outcome: RunOutcome) -> Result<(), PluginError> {
        self.run()?;
        self.run.take().map_or(Ok(()), |mut run| run.finish(outcome))
    }
}

altgrad_plugin_api::export_plugin!(sink WandbSink);
