//! Descriptors: a library's description of its plugins, before any instance is made.

use std::fmt;

use crate::stable::{
    StableAbi,
    std_types::{RSlice, RStr},
};

use crate::{OptionSpec, number::numbered};

numbered! {
    /// The kind of a plugin.
    PluginKind {
        /// A number format: [`Format`](crate::Format).
        FORMAT = 1,
        /// An optimizer: [`Optimizer`](crate::Optimizer).
        OPTIMIZER = 2,
        /// A destination of metrics: [`Sink`](crate::Sink).
        SINK = 3,
    }
}

impl PluginKind {
    /// The kind in lower case, for messages; `None` for a kind of a later version.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::FORMAT => Some("format"),
            Self::OPTIMIZER => Some("optimizer"),
            Self::SINK => Some("sink"),
            _ => None,
        }
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "unknown kind {}", self.0),
        }
    }
}

/// One plugin of a library: its name, version and options.
///
/// A constant, so that the library's file also contains it as a [`note`](crate::note):
///
/// ```
/// use altgrad_plugin_api::{Descriptor, OptionSpec};
///
/// const SGD: Descriptor = Descriptor::optimizer("sgd", "1.0.0", "Gradient descent with momentum").options(&[
///     OptionSpec::float("momentum", 0.9).range(0.0, 1.0).help("Share of the last step that the next one keeps"),
///     OptionSpec::bool("nesterov", false).help("Whether the gradient is taken after the step"),
/// ]);
/// ```
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// The kind.
    pub kind: PluginKind,
    /// The name a run file uses, unique among plugins of its kind: `E5M2`, `adamw`, `csv`.
    /// Letters, digits, `-`, `_` and `.` only.
    pub id: RStr<'static>,
    /// The plugin's own version, normally `env!("CARGO_PKG_VERSION")`.
    pub version: RStr<'static>,
    /// One line for `plugins list`.
    pub summary: RStr<'static>,
    /// The options a run file may set, in the order they should be shown.
    pub options: RSlice<'static, OptionSpec>,
    /// The author or organization; empty if it is not said.
    pub vendor: RStr<'static>,
    /// A web address with source, documentation or contact; empty if there is none.
    pub homepage: RStr<'static>,
}

impl Descriptor {
    /// A plugin without options. `version` is the author's, `summary` one line.
    #[must_use]
    pub const fn new(
        kind: PluginKind,
        id: &'static str,
        version: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            kind,
            id: RStr::from_str(id),
            version: RStr::from_str(version),
            summary: RStr::from_str(summary),
            options: RSlice::from_slice(&[]),
            vendor: RStr::from_str(""),
            homepage: RStr::from_str(""),
        }
    }

    /// A number format.
    #[must_use]
    pub const fn format(id: &'static str, version: &'static str, summary: &'static str) -> Self {
        Self::new(PluginKind::FORMAT, id, version, summary)
    }

    /// An optimizer.
    #[must_use]
    pub const fn optimizer(id: &'static str, version: &'static str, summary: &'static str) -> Self {
        Self::new(PluginKind::OPTIMIZER, id, version, summary)
    }

    /// A sink.
    #[must_use]
    pub const fn sink(id: &'static str, version: &'static str, summary: &'static str) -> Self {
        Self::new(PluginKind::SINK, id, version, summary)
    }

    /// The same by this author or organization, with its web address.
    #[must_use]
    pub const fn by(mut self, vendor: &'static str, homepage: &'static str) -> Self {
        (self.vendor, self.homepage) = (RStr::from_str(vendor), RStr::from_str(homepage));
        self
    }

    /// The same with these options.
    #[must_use]
    pub const fn options(mut self, options: &'static [OptionSpec]) -> Self {
        self.options = RSlice::from_slice(options);
        self
    }
}

/// A library's build information: recorded with every run, and checked before anything else is called.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version of this crate the library was built against, `major.minor.patch`.
    pub api_version: RStr<'static>,
    /// `rustc --version` of the compiler that built it; empty if unknown.
    pub rustc: RStr<'static>,
    /// Target triple.
    pub target: RStr<'static>,
    /// CPU features the code assumes, comma separated, as rustc names them.
    pub cpu_features: RStr<'static>,
}

impl BuildInfo {
    /// The build information of this library.
    pub const CURRENT: Self = Self {
        api_version: RStr::from_str(env!("CARGO_PKG_VERSION")),
        rustc: RStr::from_str(env!("ALTGRAD_RUSTC")),
        target: RStr::from_str(env!("ALTGRAD_TARGET")),
        cpu_features: RStr::from_str(env!("ALTGRAD_CPU_FEATURES")),
    };
}
