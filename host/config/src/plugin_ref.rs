//! One entry of `plugins.load`: a name, a path, or either with a pinned hash.
//!
//! Holds the written reference; the plugin loader looks names up, opens files and compares hashes.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// One library to load: a string, or a table that may pin the file's hash.
///
/// A string with a path separator is a path, written relative to the run file's
/// folder and absolute after load; any other is a name, looked up in `plugins.dir`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PluginRef {
    /// `"e5m2"` or `"../build/libmine.so"`.
    Name(String),
    /// `{ path = "...", sha256 = "..." }`.
    Pinned(PinnedPlugin),
}

impl PluginRef {
    /// The name or path, whichever way it was written.
    #[must_use]
    pub fn target(&self) -> &str {
        match self {
            Self::Name(target) => target,
            Self::Pinned(pinned) => &pinned.path,
        }
    }

    /// True if [`target`](Self::target) is a path and not a name.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.target().contains(std::path::is_separator)
    }

    /// The hash that the library must have: 64 lower-case hex digits after load.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        match self {
            Self::Name(_) => None,
            Self::Pinned(pinned) => pinned.sha256.as_deref(),
        }
    }
}

/// The table form of [`PluginRef`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedPlugin {
    /// Name or path, as in the string form.
    pub path: String,
    /// Required SHA-256 of the library. Default: any.
    pub sha256: Option<String>,
}

/// By hand because serde's `untagged` forgets which key of the table was wrong.
impl<'de> Deserialize<'de> for PluginRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringOrTable;

        impl<'de> Visitor<'de> for StringOrTable {
            type Value = PluginRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a table { path, sha256 }")
            }

            fn visit_str<E: Error>(self, target: &str) -> Result<PluginRef, E> {
                Ok(PluginRef::Name(target.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PluginRef, A::Error> {
                PinnedPlugin::deserialize(MapAccessDeserializer::new(map)).map(PluginRef::Pinned)
            }
        }

        deserializer.deserialize_any(StringOrTable)
    }
}
