//! Conformance suites for number formats, optimizers and sinks.
//!
//! In a plugin crate's own tests:
//!
//! ```
//! # use altgrad_plugin_api::{
//! #     Config, Descriptor, Format, FormatSpec, PluginError, QuantParams, QuantStats, Scales,
//! # };
//! # struct MyFormat;
//! # impl Format for MyFormat {
//! #     const DESCRIPTOR: Descriptor = Descriptor::format("MINE", "1.0.0", "mine");
//! #     fn new(_: &Config) -> Result<Self, PluginError> { Ok(Self) }
//! #     fn spec(&self) -> FormatSpec { FormatSpec::Table([0.0, 1.0].into_iter().collect()) }
//! #     fn fake_quant(&self, _: &[f32], _: &mut [f32], _: &QuantParams<'_>, _: &mut [u64])
//! #         -> Result<QuantStats, PluginError> { Ok(QuantStats::default()) }
//! #     fn encode(&self, _: &[f32], _: &mut [u16], _: &QuantParams<'_>) -> Result<(), PluginError> { Ok(()) }
//! #     fn decode(&self, _: &[u16], _: &mut [f32], _: &Scales<'_>) -> Result<(), PluginError> { Ok(()) }
//! # }
//! #[cfg(test)]
//! mod conformance {
//!     altgrad_conformance::format_suite!(super::MyFormat);
//! }
//! # fn main() {}
//! ```
//!
//! This generates one `#[test]` per [`Check`]; each check runs with each choice of the format's options.
//! `altgrad-host plugins check PATH` runs the same checks on a library, each in a process of its own.
//!
//! [`sinks`] is the suite of sinks, `altgrad_conformance::sink_suite!(MySink)`, [`optimizers`] that of optimizers;
//! everything else tests formats.
//!
//! Expected results come from a slow definition in exact arithmetic ([`Oracle`]) that shares no code with any format;
//! it uses only the [`FormatSpec`](altgrad_plugin_api::FormatSpec) of a format. A check calls instances as the host
//! does, through [`FormatObject`](altgrad_plugin_api::abi::FormatObject), so that guards and adapters are tested too. A
//! rounding mode that the format refuses as unsupported is skipped, which is reported; nearest-even is mandatory.
//! Random inputs are seeded, so that results are the same in every run.

#![deny(missing_docs)]

mod allowed_values;
mod checks;
mod compare;
mod guarded;
mod inputs;
pub mod lifecycle;
pub mod optimizers;
mod oracle;
mod random;
pub mod sinks;
pub mod speed;
mod subject;

use std::io::Write;

pub use oracle::Oracle;
pub use random::Random;
pub use subject::{Instance, Subject, subject_names};

/// The result of a check without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything in it is as required.
    Passed,
    /// It does not apply to this plugin: why.
    Skipped(String),
    /// What can be seen is as required; a part cannot be seen, or is doubtful: what, and why.
    Warned(String),
}

/// The result of a check; the error has the call, its result and the expected result.
pub type CheckResult = Result<Verdict, String>;

/// One property that every format must have, or every plugin of another kind of subject.
#[derive(Debug, Clone, Copy)]
pub struct Check<S = Subject> {
    /// Its name, an identifier.
    pub name: &'static str,
    /// The requirement of the check, in one sentence.
    pub what: &'static str,
    /// Runs it.
    pub run: fn(&S) -> CheckResult,
}

/// The suite in one place: name, the module of [`checks`] that has it, and its requirement.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_check {
    ($then:ident $given:tt) => {
        $crate::$then! { $given
            [descriptor, identity, "name, version, summary and options are well formed, and every default is allowed"]
            [options, identity, "no option value makes the constructor panic, and all declared choices and limits work"]
            [spec, identity, "the description is a possible format, and always the same"]
            [decode_codes, codes, "every code decodes to what the description says, bit for bit; codes beyond are refused"]
            [encode_codes, codes, "every finite code survives decoding and encoding; infinities saturate"]
            [encode_nan, codes, "NaN is encoded as a NaN code, or refused as a value where there is none"]
            [nearest_even_edges, rounding, "to nearest-even: grid points, midpoints, neighbours, subnormal edges, the largest"]
            [nearest_even_random, rounding, "to nearest-even: a million random bit patterns and values within the range"]
            [nearest_away_edges, rounding, "to nearest-away: grid points, midpoints, neighbours, subnormal edges, the largest"]
            [nearest_away_random, rounding, "to nearest-away: a million random bit patterns and values within the range"]
            [toward_zero_edges, rounding, "toward zero: grid points, midpoints, neighbours, subnormal edges, the largest"]
            [toward_zero_random, rounding, "toward zero: a million random bit patterns and values within the range"]
            [stochastic_edges, rounding, "stochastic: one of the two neighbours, grid points stay, beyond the largest saturates"]
            [unknown_rounding, rounding, "a rounding mode that is not defined is refused as UNSUPPORTED"]
            [special_values, rounding, "NaN stays NaN, infinities saturate, zeros keep their sign, f32 subnormals are numbers"]
            [idempotence, order, "rounding a rounded value changes nothing"]
            [monotonicity, order, "a larger value is never rounded to a smaller one"]
            [sign_symmetry, order, "the negative of a value is rounded to the negative result"]
            [error_bound, order, "nearest, without thresholds of its own, is off by at most half a gap, every other mode by less than one"]
            [statistics_counts, statistics, "overflow, underflow, NaN, non-zero and amax are exact"]
            [statistics_sums, statistics, "the three sums are right within 1e-6"]
            [histogram, statistics, "counts every code encode writes, adds to what is there, and changes nothing else"]
            [shapes, shapes, "empty, odd and unaligned slices: every element is written, nothing beside them"]
            [huge, shapes, "16 Mi elements at once"]
            [length_mismatch, shapes, "destinations too short or too long are refused as SHAPE and left alone"]
            [wrong_dtype, shapes, "tensors of another element type are refused as DTYPE and left alone"]
            [memory, memory, "between guard pages: it reads and writes nothing beside its arguments, nor writes to what it is to read"]
            [strange_arguments, shapes, "impossible scales, keys and histograms end in values or errors, never in a panic"]
            [repeatable, together, "the same call gives the same result, in every mode"]
            [instances, together, "two instances do not influence each other"]
            [threads, together, "calls from four threads at once agree with one thread"]
            [endurance, together, "the 120,000th call of an instance gives what the first gives"]
            [splits, together, "a tensor in parts, with their offsets as keys, gives what the whole gives"]
            [magnitudes, magnitudes, "the magnitude of a block is finite, above 0 unless no element is, and the same again"]
            [block_scales, blocks, "scales by block give what each block's one scale gives; too few are refused as SHAPE"]
            [stochastic_keys, random, "the same key draws the same bits; seed, step, tensor and offset each change them"]
            [stochastic_unbiased, random, "the mean is within 4 standard errors in every kind of cell"]
            [stochastic_chi_square, random, "the number of roundings up follows its probability all along a cell"]
            [stochastic_independence, random, "neighbouring elements, consecutive steps, tensors and seeds are uncorrelated"]
            [random_calls, fuzz, "random lengths, places, scales, modes, keys and values: as defined; failures name the seed"]
            [sqnr_law, laws, "signal to noise on amax-scaled Gaussian data, for the formats with a known value"]
            [scaling_law, laws, "scaled as the format wants, Gaussian data have a signal to noise within 3 dB of the best power of two"]
            [shrinkage_law, laws, "shrinkage on amax-scaled Gaussian data, for the formats with a known value"]
            [kernels, kernels, "kernel texts are whole: entry, buffers, info block, statistics, limits of the target, any length"]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __check_table {
    (() $([$name:ident, $module:ident, $what:literal])*) => {
        &[$(Check { name: stringify!($name), what: $what, run: checks::$module::$name }),*]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __check_tests {
    ([$format:ty] $([$name:ident, $module:ident, $what:literal])*) => {
        $(#[doc = $what]
        #[test]
        fn $name() -> Result<(), String> {
            $crate::run_on_variants::<$format>(stringify!($name))
        })*
    };
}

/// One `#[test]` a check, here, for a type that implements [`Format`](altgrad_plugin_api::Format), all variants
/// included.
///
/// Two formats in one file need a module each.
#[macro_export]
macro_rules! format_suite {
    ($format:ty) => {
        $crate::__each_check! { __check_tests [$format] }
    };
}

/// The whole suite, in the order in which it should run: later checks rely on properties that earlier ones verify.
#[must_use]
pub fn checks() -> &'static [Check] {
    __each_check! { __check_table () }
}

/// Checks that a format goes through before a run uses it: together they take less than a second. Nothing beyond the
/// plugin itself is needed for them.
pub const QUICK: &[&str] = &[
    "descriptor",
    "options",
    "spec",
    "decode_codes",
    "encode_codes",
    "encode_nan",
    "nearest_even_edges",
    "nearest_away_edges",
    "toward_zero_edges",
    "stochastic_edges",
    "special_values",
    "idempotence",
    "monotonicity",
    "error_bound",
    "statistics_counts",
    "statistics_sums",
    "magnitudes",
    "histogram",
    "shapes",
    "length_mismatch",
    "repeatable",
    "instances",
    "splits",
    "block_scales",
    "stochastic_keys",
    "random_calls",
];

/// Runs those checks of a suite that are named, in the suite's order; `begins` gets the name of each before it runs.
///
/// # Errors
/// The first failed check, by name, and its message.
pub fn run_named<S>(
    checks: &[Check<S>],
    names: &[&str],
    subject: &S,
    mut begins: impl FnMut(&'static str),
) -> CheckResult {
    for check in checks.iter().filter(|check| names.contains(&check.name)) {
        begins(check.name);
        (check.run)(subject).map_err(|fault| format!("{}: {fault}", check.name))?;
    }
    Ok(Verdict::Passed)
}

/// The check of that name.
#[must_use]
pub fn check(name: &str) -> Option<&'static Check> {
    checks().iter().find(|check| check.name == name)
}

/// Runs one check on every variant of a format; a skip is reported on stderr.
///
/// # Errors
/// The first failed variant, and its message.
pub fn run_on_variants<F: altgrad_plugin_api::Format>(name: &str) -> Result<(), String> {
    let check = check(name).ok_or_else(|| format!("there is no check `{name}`"))?;
    for subject in Subject::all_of::<F>()? {
        let verdict = (check.run)(&subject).map_err(|fault| format!("{}: {fault}", subject.name()))?;
        say_if_unseen(name, subject.name(), &verdict);
    }
    Ok(())
}

/// Reports a skip or a warning past the test harness's capture, so that it is seen in a green run too.
fn say_if_unseen(check: &str, subject: &str, verdict: &Verdict) {
    let (what, why) = match verdict {
        Verdict::Passed => return,
        Verdict::Skipped(why) => ("SKIPPED", why),
        Verdict::Warned(why) => ("WARNING", why),
    };
    let _ = writeln!(std::io::stderr(), "{what} {check} of {subject}: {why}");
}

/// The plugins of the READMEs are compiled.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../../README.md")]
    struct OfTheProject;
    #[doc = include_str!("../../../plugin-api/README.md")]
    struct OfPluginApi;
}

#[cfg(test)]
mod tests {
    /// The names of a suite.
    fn names<S>(checks: &[super::Check<S>]) -> Vec<&'static str> {
        checks.iter().map(|check| check.name).collect()
    }

    #[test]
    fn quick_checks_are_checks_of_their_suites() {
        let suites = [
            (super::QUICK, names(super::checks())),
            (super::optimizers::QUICK, names(super::optimizers::checks())),
            (super::optimizers::WITH_OPTIONS, names(super::optimizers::checks())),
            (super::sinks::QUICK, names(super::sinks::checks())),
        ];
        for (quick, suite) in suites {
            assert!(quick.iter().all(|name| suite.contains(name)), "{quick:?}, {suite:?}");
        }
    }
}
