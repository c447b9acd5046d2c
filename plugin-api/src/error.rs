//! The error type of the plugin interface.

use std::{fmt, path::Path};

use crate::stable::{StableAbi, std_types::RString};

/// The class of a [`PluginError`]: a number, so that later versions can add kinds. A reader treats an unknown number as
/// [`ErrorKind::OTHER`].
#[repr(transparent)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorKind(
    /// The number that crosses the boundary.
    pub u32,
);

impl ErrorKind {
    /// Any other error.
    pub const OTHER: Self = Self(0);
    /// An option has an invalid value.
    pub const CONFIG: Self = Self(1);
    /// The library has no plugin of this id.
    pub const UNKNOWN_ID: Self = Self(2);
    /// Lengths or shapes do not match.
    pub const SHAPE: Self = Self(3);
    /// The element type is not the required one.
    pub const DTYPE: Self = Self(4);
    /// The tensor is on a device that the call cannot access.
    pub const DEVICE: Self = Self(5);
    /// The plugin does not support the operation.
    pub const UNSUPPORTED: Self = Self(6);
    /// A file or a connection failed.
    pub const IO: Self = Self(7);
    /// A value cannot be represented, such as NaN in a format without NaN.
    pub const VALUE: Self = Self(8);
    /// The plugin panicked; its instance is poisoned from here on.
    pub const PANIC: Self = Self(9);
    /// The instance panicked before and refuses further calls.
    pub const POISONED: Self = Self(10);
    /// From [`Sink::open`](crate::Sink::open): rows that a checkpoint relies on are missing or changed.
    pub const GAP: Self = Self(11);
}

/// An error: one sentence and a hint.
///
/// Owner: the receiver. The strings carry their own deallocator, so either side may drop them.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Eq)]
pub struct PluginError {
    /// The class of the fault.
    pub kind: ErrorKind,
    /// The fault: one sentence on one line, without a final full stop.
    pub message: RString,
    /// The advice to the user; may be empty.
    pub hint: RString,
}

impl PluginError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: RString::from(message.into()), hint: RString::new() }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = RString::from(hint.into());
        self
    }

    /// [`ErrorKind::CONFIG`]: an option has an invalid value.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::CONFIG, message)
    }

    /// [`ErrorKind::SHAPE`]: lengths do not match.
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::SHAPE, message)
    }

    /// [`ErrorKind::UNSUPPORTED`]: the plugin does not support the operation.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::UNSUPPORTED, message)
    }

    /// [`ErrorKind::IO`]: an operation on a file or folder failed. The message names it.
    pub fn io(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::IO, format!("`{}`: {error}", path.display()))
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PluginError {}

impl From<std::io::Error> for PluginError {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::IO, error.to_string())
    }
}
