//! What a library says about itself before anything in it is made.

use abi_stable::{
    StableAbi,
    std_types::{RString, RVec},
};

use crate::OptionSpec;

/// The three kinds of plugin.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginKind {
    /// A number format: [`Format`](crate::Format).
    Format,
    /// An optimizer: [`Optimizer`](crate::Optimizer).
    Optimizer,
    /// A destination of metrics: [`Sink`](crate::Sink).
    Sink,
}

impl PluginKind {
    /// The kind in lower case, as messages spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Optimizer => "optimizer",
            Self::Sink => "sink",
        }
    }
}

impl std::fmt::Display for PluginKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One plugin of a library: its name, version and options.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// What it is.
    pub kind: PluginKind,
    /// The name a run file uses, unique among plugins of its kind: `E5M2`, `adamw`, `csv`.
    /// Letters, digits, `-`, `_` and `.` only.
    pub id: RString,
    /// The plugin's own version, normally `env!("CARGO_PKG_VERSION")`.
    pub version: RString,
    /// One line for `plugins list`.
    pub summary: RString,
    /// The options a run file may set, in the order they should be shown.
    pub options: RVec<OptionSpec>,
}

impl Descriptor {
    /// A plugin without options. `version` is the author's, `summary` one line.
    #[must_use]
    pub fn new(kind: PluginKind, id: &str, version: &str, summary: &str) -> Self {
        Self { kind, id: id.into(), version: version.into(), summary: summary.into(), options: RVec::new() }
    }

    /// A number format.
    #[must_use]
    pub fn format(id: &str, version: &str, summary: &str) -> Self {
        Self::new(PluginKind::Format, id, version, summary)
    }

    /// An optimizer.
    #[must_use]
    pub fn optimizer(id: &str, version: &str, summary: &str) -> Self {
        Self::new(PluginKind::Optimizer, id, version, summary)
    }

    /// A sink.
    #[must_use]
    pub fn sink(id: &str, version: &str, summary: &str) -> Self {
        Self::new(PluginKind::Sink, id, version, summary)
    }

    /// Adds an option.
    #[must_use]
    pub fn option(mut self, option: OptionSpec) -> Self {
        self.options.push(option);
        self
    }
}

/// How a library was built: recorded with every run, and checked before anything else is called.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version of this crate the library was built against, `major.minor.patch`.
    pub api_version: RString,
    /// `rustc --version` of the compiler that built it; empty if unknown.
    pub rustc: RString,
    /// Target triple.
    pub target: RString,
    /// CPU features the code assumes, comma separated, as rustc names them.
    pub cpu_features: RString,
}

impl BuildInfo {
    /// The facts of the build this code is part of.
    #[must_use]
    pub fn current() -> Self {
        Self {
            api_version: env!("CARGO_PKG_VERSION").into(),
            rustc: env!("ALTGRAD_RUSTC").into(),
            target: env!("ALTGRAD_TARGET").into(),
            cpu_features: env!("ALTGRAD_CPU_FEATURES").into(),
        }
    }
}
