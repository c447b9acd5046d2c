//! The suite of sinks: calls that a host may make, and their required results.
//!
//! ```
//! # use altgrad_plugin_api::{Config, Descriptor, Metric, PluginError, RunInfo, RunOutcome, Sink};
//! # struct MySink;
//! # impl Sink for MySink {
//! #     const DESCRIPTOR: Descriptor = Descriptor::sink("mine", "1.0.0", "mine");
//! #     fn new(_: &Config) -> Result<Self, PluginError> { Ok(Self) }
//! #     fn open(&mut self, _: &RunInfo<'_>) -> Result<(), PluginError> { Ok(()) }
//! #     fn log(&mut self, _: u64, _: &[Metric<'_>]) -> Result<(), PluginError> { Ok(()) }
//! #     fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> { Ok(()) }
//! # }
//! #[cfg(test)]
//! mod conformance {
//!     altgrad_conformance::sink_suite!(super::MySink);
//! }
//! # fn main() {}
//! ```
//!
//! Every check works in a scratch folder that holds the run folder, and afterwards checks that nothing was written
//! beside the run folder or into the working folder. Sinks are made with the options the subject has, by default their
//! defaults; effects outside the machine are not checked.

mod calls;
mod choices;
mod kept;
mod resume;
mod rows;
mod subject;

pub use subject::SinkSubject;

use crate::{Check, CheckResult, checks::identity, say_if_unseen};
use altgrad_plugin_api::{PluginKind, Sink};

/// The suite in one place: name, the module that has it, and its requirement.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_sink_check {
    ($then:ident $given:tt) => {
        $crate::$then! { $given
            [descriptor, own, "name, version, summary and options are well formed, and every default is allowed"]
            [options, own, "no option value makes the constructor panic, and all declared choices and limits work"]
            [life, calls, "rows, distributions, alerts, state, closing values and every way a run ends are taken"]
            [nothing_to_say, calls, "a run without a row, and rows without a value"]
            [wrong_order, calls, "calls before `open`, after `finish` and twice end in values or errors, never in a panic"]
            [instances, calls, "two runs at once, each in its folder, do not influence each other"]
            [threads, calls, "made on one thread, used on another, dropped on a third"]
            [no_folder, calls, "a run folder that is not there ends in values or errors, never in a panic"]
            [odd_names, rows, "names with commas, quotes, line breaks, slashes, every script, none and 10,000 characters"]
            [odd_values, rows, "NaN, infinities, zeros of both signs, the smallest and largest numbers"]
            [odd_distributions, rows, "one bin, no element, infinite edges, thousands of bins"]
            [new_metrics, rows, "metrics that nobody announced, from the first row or later, many at once"]
            [many_rows, rows, "120,000 rows, one after the other"]
            [choices, choices, "rows and resuming work with every declared choice and limit of an option"]
            [kept_values, kept, "files of the run folder that hold values of rows hold all of them, to the last digit"]
            [survives, kept, "a row is in the files as soon as `log` returns"]
            [resume, resume, "a run that ended in any way resumes from any step; readable files have each step once"]
            [resume_again, resume, "resuming at the same step several times, and where nothing was written before"]
            [random_lives, resume, "runs of random rows that are killed and resumed at random; failures name the seed"]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __sink_table {
    (() $([$name:ident, $module:ident, $what:literal])*) => {
        &[$(Check { name: stringify!($name), what: $what, run: $module::$name }),*]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __sink_tests {
    ([$sink:ty] $([$name:ident, $module:ident, $what:literal])*) => {
        $(#[doc = $what]
        #[test]
        fn $name() -> Result<(), String> {
            $crate::sinks::run_on::<$sink>(stringify!($name))
        })*
    };
}

/// One `#[test]` a check, here, for a type that implements [`Sink`](altgrad_plugin_api::Sink), with its default
/// options.
#[macro_export]
macro_rules! sink_suite {
    ($sink:ty) => {
        $crate::__each_sink_check! { __sink_tests [$sink] }
    };
}

/// The whole suite, in the order in which it should run.
#[must_use]
pub fn checks() -> &'static [Check<SinkSubject>] {
    __each_sink_check! { __sink_table () }
}

/// Checks that a sink goes through before a run uses it: none opens it, because that may reach a server or a file.
pub const QUICK: &[&str] = &["descriptor", "options"];

/// The check of that name.
#[must_use]
pub fn check(name: &str) -> Option<&'static Check<SinkSubject>> {
    checks().iter().find(|check| check.name == name)
}

/// Runs one check on a sink of this crate; a skip is reported on stderr.
///
/// # Errors
/// The failed check.
pub fn run_on<T: Sink>(name: &str) -> Result<(), String> {
    let check = check(name).ok_or_else(|| format!("there is no check `{name}`"))?;
    let subject = SinkSubject::of::<T>()?;
    let verdict = (check.run)(&subject)?;
    say_if_unseen(name, subject.descriptor().id.as_str(), &verdict);
    Ok(())
}

/// Checks that are common to all plugins.
mod own {
    use super::{CheckResult, PluginKind, SinkSubject, identity};

    pub(super) fn descriptor(subject: &SinkSubject) -> CheckResult {
        identity::described(subject.descriptor(), PluginKind::SINK)
    }

    pub(super) fn options(subject: &SinkSubject) -> CheckResult {
        subject
            .scratch()?
            .closed(identity::constructed(subject.descriptor(), |config| subject.make(config).map(drop)))
    }
}
