//! The two-way layout check, and its result in one sentence.
//!
//! abi_stable's check is asymmetric: a host refuses a plugin that lacks a field appended later, although the missing
//! field would simply read as absent. It is therefore enough that one direction passes.

use altgrad_plugin_api::abi::{
    PluginModuleRef,
    stable::{
        StableAbi,
        abi_stability::abi_checking::{AbiInstability, AbiInstabilityErrors, check_layout_compatibility},
        type_layout::TypeLayout,
    },
};

/// The reason why the library's types cannot be used: one sentence, and the checker's full report.
pub(super) struct LayoutFault {
    pub(super) sentence: String,
    pub(super) report: String,
}

/// Compares the library's root module with the host's, in both directions.
pub(super) fn check(library: &'static TypeLayout) -> Result<(), LayoutFault> {
    let host = <PluginModuleRef as StableAbi>::LAYOUT;
    let Err(errors) = check_layout_compatibility(host, library) else { return Ok(()) };
    if check_layout_compatibility(library, host).is_ok() {
        return Ok(());
    }
    Err(LayoutFault { sentence: sentence(&errors), report: errors.to_string() })
}

fn sentence(errors: &AbiInstabilityErrors) -> String {
    let Some((error, first)) = errors.errors.iter().find_map(|error| Some((error, error.errs.first()?)))
    else {
        return "its types differ from the host's".into();
    };
    let place = error
        .stack_trace
        .last()
        .map(|frame| format!("at `{}` ", type_in(&frame.expected.to_string())))
        .unwrap_or_default();
    format!("its types differ from the host's {place}({})", describe(first))
}

fn describe(fault: &AbiInstability) -> String {
    let pair = |what: &str, expected: String, found: String| {
        format!("{what}: the host has {}, the plugin {}", one_line(&expected), one_line(&found))
    };
    match fault {
        AbiInstability::FieldCountMismatch(v) => {
            pair("number of fields", v.expected.to_string(), v.found.to_string())
        }
        AbiInstability::Size(v) => pair("size in bytes", v.expected.to_string(), v.found.to_string()),
        AbiInstability::Alignment(v) => pair("alignment", v.expected.to_string(), v.found.to_string()),
        AbiInstability::Name(v) => pair("type", v.expected.to_string(), v.found.to_string()),
        AbiInstability::PackageVersion(v) => {
            pair("plugin-api version", v.expected.to_string(), v.found.to_string())
        }
        AbiInstability::UnexpectedField(v) => pair("field", v.expected.to_string(), v.found.to_string()),
        AbiInstability::TooManyVariants(v) => {
            pair("number of variants", v.expected.to_string(), v.found.to_string())
        }
        other => one_line(&format!("{other:?}")),
    }
}

/// The type that the checker's text of a field names; of any other text, its first line.
fn type_in(text: &str) -> String {
    one_line(text.lines().find_map(|line| line.trim().strip_prefix("type:")).unwrap_or(text))
}

/// The first line of a text, short enough for a sentence.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(80).collect()
}
