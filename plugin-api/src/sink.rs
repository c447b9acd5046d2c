//! The sink contract: destinations of metrics.
//!
//! A sink has a thread of its own and a bounded queue, so it may block; it never runs on the training thread. Calls come in this
//! order: `open`, then any of `log`, `histogram`, `alert`, `state`, then `summary`, `finish`.

use crate::abi::stable::{
    StableAbi,
    std_types::{ROption, RSlice, RStr},
};

use crate::{Config, Descriptor, PluginError, number::numbered};

/// The run a sink is opened for. Borrowed for the call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct RunInfo<'a> {
    /// The run's name.
    pub name: RStr<'a>,
    /// The run folder, absolute; it exists and is writable. A sink writes inside it only.
    pub folder: RStr<'a>,
    /// The resolved run file, TOML.
    pub config_toml: RStr<'a>,
    /// Names of the metrics that a row may contain, in display order. Later rows may have others.
    pub metrics: RSlice<'a, MetricName<'a>>,
    /// The step at which a resumed run continues: rows from it on are repeated. None for a new run. `u64::MAX`: there are no more
    /// rows, and [`Sink::finish`] is the next call, which completes the work of an earlier process.
    pub resume_step: ROption<u64>,
    /// The result of [`Sink::state`] in the checkpoint from which the run resumes; empty for a new run.
    pub state: RSlice<'a, u8>,
}

/// A metric's name, and whether it is a timing.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricName<'a> {
    /// `train/loss`.
    pub name: RStr<'a>,
    /// True if it measures this machine (time, rate, memory) and so differs between equal runs.
    pub timing: bool,
}

impl<'a> MetricName<'a> {
    /// Statistic and layer of a metric that belongs to one layer: `grad_norm_l2` and `h.0.mlp.c_fc.weight`.
    ///
    /// Layers have the names of their parameters, with a dot, after the last `/`; no other name has a dot there.
    #[must_use]
    pub fn by_layer(&self) -> Option<(&'a str, &'a str)> {
        let (statistic, layer) = self.name.as_str().rsplit_once('/')?;
        layer.contains('.').then_some((statistic, layer))
    }
}

/// One value of a row. A missing metric is absent; NaN means that the computation gave NaN.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct Metric<'a> {
    /// The metric.
    pub name: MetricName<'a>,
    /// The value.
    pub value: f64,
}

numbered! {
    /// The urgency of an alert; a higher number is more urgent.
    AlertLevel {
        /// Information.
        INFO = 1,
        /// A condition to inspect.
        WARN = 2,
        /// The run is in danger.
        ERROR = 3,
    }

    /// The end of a run.
    RunOutcome {
        /// All steps done.
        COMPLETED = 1,
        /// Stopped by the user.
        INTERRUPTED = 2,
        /// Stopped by an error.
        FAILED = 3,
    }
}

impl AlertLevel {
    /// The level in lower case; `unknown` for a level of a later version.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::INFO => "info",
            Self::WARN => "warn",
            Self::ERROR => "error",
            _ => "unknown",
        }
    }
}

/// An event to report to the user. Borrowed for the call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Alert<'a> {
    /// The step it belongs to.
    pub step: u64,
    /// The urgency.
    pub level: AlertLevel,
    /// A stable short name: `nan_loss`, `overflow`, `best`.
    pub kind: RStr<'a>,
    /// One sentence.
    pub text: RStr<'a>,
}

/// A binned distribution. Borrowed for the call.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Histogram<'a> {
    /// `weights/hist/h.0.attn.c_attn.weight`.
    pub name: RStr<'a>,
    /// Bin edges, ascending, one more than `counts`.
    pub edges: RSlice<'a, f64>,
    /// Elements per bin.
    pub counts: RSlice<'a, u64>,
}

/// A destination of metrics.
///
/// Threads: `[sink-thread]` all methods but `new`; one call at a time. A method that panics poisons its instance: the host
/// reports it and continues training without the sink.
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
    /// [`RunInfo::state`] counts are missing or changed: the host reports and stores the message, and calls again with an empty
    /// state, to continue with the existing rows.
    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError>;

    /// Writes one row. Steps ascend, and each occurs once. An accepted row must survive a crash of the process right after the
    /// call returns. `[sink-thread]`
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

    /// The state that a resumed run needs and that the run folder lacks, or may hold in an older version than the checkpoint.
    /// Checkpoints store it as opaque bytes. The host requests it after the last row of the checkpoint's step. Empty by default.
    /// Store no secrets: users copy checkpoints. `[sink-thread]`
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_what_has_a_dot_behind_the_last_slash() {
        let by_layer = |name: &'static str| MetricName { name: name.into(), timing: false }.by_layer();
        let layer = "h.0.attn.c_attn.weight";
        assert_eq!(
            by_layer("quant/weight/sqnr_db/h.0.attn.c_attn.weight"),
            Some(("quant/weight/sqnr_db", layer))
        );
        assert_eq!(by_layer("grad_norm_l2/wte.weight"), Some(("grad_norm_l2", "wte.weight")));
        for name in ["train/loss", "quant/weight/bit_active/0", "", "loss", "v1.2/loss", "wte.weight"] {
            assert_eq!(by_layer(name), None, "{name}");
        }
    }
}
