//! The messages between the parent and its children.

use std::path::{Path, PathBuf};

use altgrad_plugin_api::PluginKind;
use serde::{Deserialize, Serialize};

/// The name of all quick checks together.
pub(super) const QUICK: &str = "quick";

/// The file, beside a child's answer, that names the quick check that is running.
pub(super) fn running(answer: &Path) -> PathBuf {
    answer.with_extension("running")
}

/// A variable of the environment and its value; none: it is not set.
pub(super) type Variable = (&'static str, Option<&'static str>);

/// The request to a child.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The sha256 that the library must have: all checks are of the same bytes.
    pub(super) sha256: &'a str,
    pub(super) kind: PluginKind,
    pub(super) plugin: &'a str,
    pub(super) check: &'a str,
    pub(super) set: &'a [String],
    pub(super) seed: u64,
    /// The variables that set another locale.
    pub(super) locale: &'static [&'static str],
    /// Variables that are set otherwise than usual.
    pub(super) variables: &'static [Variable],
}

/// The contents of a library, as reported by the child that loads it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Contents {
    /// Absolute path.
    pub(super) library: String,
    pub(super) sha256: String,
    /// Names of its formats, variants included.
    pub(super) formats: Vec<String>,
    /// Names of its optimizers.
    pub(super) optimizers: Vec<String>,
    /// Names of its sinks.
    pub(super) sinks: Vec<String>,
}

/// The result of a child, or its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "why")]
pub(super) enum Verdict {
    Ok,
    Skipped(String),
    Warned(String),
    Failed(String),
}
