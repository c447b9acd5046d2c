//! The data of sinks: the run, metrics, histograms and alerts.

use crate::stable::{
    StableAbi,
    std_types::{ROption, RSlice, RStr, RString},
};

use crate::number::numbered;

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
    /// The step at which a resumed run continues: rows from it on are repeated. None for a new run. `u64::MAX`: there
    /// are no more rows, and [`Sink::finish`](crate::Sink::finish) is the next call, which completes the work of an
    /// earlier process.
    pub resume_step: ROption<u64>,
    /// The result of [`Sink::state`](crate::Sink::state) in the checkpoint from which the run resumes; empty for a new
    /// run.
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

/// A value that a sink stored: see [`Sink::read_back`](crate::Sink::read_back).
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct StoredValue {
    /// The row's step.
    pub step: u64,
    /// The metric's name.
    pub name: RString,
    /// The value, with all digits that were stored.
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
