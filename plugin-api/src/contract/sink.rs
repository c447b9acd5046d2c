//! The sink contract: destinations of metrics.
//!
//! A sink has a thread of its own and a bounded queue, so it may block; it never runs on the training thread. Calls
//! come in this order: `open`, then any of `log`, `histogram`, `alert`, `state`, then `summary`, `finish`.

use std::path::Path;

use crate::{Alert, Config, Descriptor, Histogram, Metric, PluginError, RunInfo, RunOutcome, StoredValue};

/// A destination of metrics.
///
/// Threads: `[sink-thread]` all methods but `new`; one call at a time. A method that panics poisons its instance: the
/// host reports it and continues training without the sink.
pub trait Sink: Send + Sized + 'static {
    /// Name, version, options.
    const DESCRIPTOR: Descriptor;

    /// Makes an instance from complete, range-checked options; touches no file yet. `[main-thread]`
    ///
    /// # Errors
    /// If an option value is invalid although its declared type, range and choices allow it.
    fn new(config: &Config) -> Result<Self, PluginError>;

    /// Begins a run. `[sink-thread]`
    ///
    /// # Errors
    /// The sink cannot write; the host refuses to start the run. [`ErrorKind::GAP`](crate::ErrorKind::GAP) if rows that
    /// [`RunInfo::state`] counts are missing or changed: the host reports and stores the message, and calls again with
    /// an empty state, to continue with the existing rows.
    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError>;

    /// Writes one row. Steps ascend, and each occurs once. An accepted row must survive a crash of the process right
    /// after the call returns. `[sink-thread]`
    ///
    /// # Errors
    /// The reason why the row is lost; the host reports it and closes the sink.
    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError>;

    /// Writes a distribution; ignored by default. `[sink-thread]`
    ///
    /// # Errors
    /// As [`Sink::log`].
    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        let _ = (step, histogram);
        Ok(())
    }

    /// Writes an event; ignored by default. `[sink-thread]`
    ///
    /// # Errors
    /// As [`Sink::log`].
    fn alert(&mut self, alert: &Alert<'_>) -> Result<(), PluginError> {
        let _ = alert;
        Ok(())
    }

    /// The state that a resumed run needs and that the run folder lacks, or may hold in an older version than the
    /// checkpoint. Checkpoints store it as opaque bytes. The host requests it after the last row of the checkpoint's
    /// step. Empty by default. Store no secrets: users copy checkpoints. `[sink-thread]`
    ///
    /// # Errors
    /// As [`Sink::log`].
    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        Ok(Vec::new())
    }

    /// Writes the closing values (final and best loss); ignored by default. `[sink-thread]`
    ///
    /// # Errors
    /// As [`Sink::log`].
    fn summary(&mut self, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let _ = metrics;
        Ok(())
    }

    /// Ends the run: flush and close. `[sink-thread]`
    ///
    /// # Errors
    /// The reason why data could not be written.
    fn finish(&mut self, outcome: RunOutcome) -> Result<(), PluginError>;

    /// Reads the values of all rows that a run folder holds, in the order of the file, by another instance than the one
    /// that writes and while it writes: for `plugins check`, of sinks whose files are no text. None by default.
    /// `[main-thread]`
    ///
    /// # Errors
    /// The files cannot be read.
    fn read_back(&self, folder: &Path) -> Result<Option<Vec<StoredValue>>, PluginError> {
        let _ = folder;
        Ok(None)
    }
}
